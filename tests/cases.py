"""One operator with constant operands, four ways: specification, lowering, interpreter, delegation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from qimport.errors import UnsupportedError
from qimport.ir.graph import Array, Builder, Call, Graph, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import INTEGER_RANGE, Quantization, TensorType
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.oracle import Oracle, OracleRefused
from qimport.qnn.base import QnnOperation
from qimport.qnn.geometry import Padding
from tests.flatbuffer_builder import ModelBuilder
from tests.single_op import expect_same, quantized

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass(frozen=True)
class Operand:
    """A tensor of the file; ``data`` makes it a constant, otherwise ``value`` is what the test feeds."""

    type: TensorType
    data: Array | None = field(default=None, repr=False)
    value: Array | None = field(default=None, repr=False)


@dataclass(frozen=True)
class OperatorCase:
    """An operation, its operands (None: absent) and how the file writes it.

    ``attributes`` are constant operands of the file that are no operands of ours.
    """

    op: QnnOperation
    operands: tuple[Operand | None, ...]
    output: TensorType
    builtin: str
    options: Mapping[str, Any] = field(default_factory=dict)
    attributes: tuple[Array, ...] = ()
    version: int = 3

    @property
    def inputs(self) -> list[Array]:
        """What the test feeds, in order."""
        return [o.value for o in self.operands if o is not None and o.value is not None]

    def call(self, numerics: Numerics) -> Call:
        """The types of the only node."""
        types = tuple(None if o is None else o.type for o in self.operands)
        return Call(types, (self.output,), (), numerics)

    def graph(self) -> Graph:
        """The qnn graph of the only node."""
        builder = Builder()
        values = [None if o is None else Value(o.type, f"v{i}", o.data) for i, o in enumerate(self.operands)]
        result = builder.emit(self.op, values, self.output, "y")
        inputs = tuple(value for value in values if value is not None and not value.is_constant)
        return Graph("case", inputs, (result,), tuple(builder.nodes))

    def file(self) -> bytes:
        """The .tflite file of the only operator."""
        model = ModelBuilder()
        written = self.operands[:-1] if self.operands[-1] is None else self.operands
        tensors = [-1 if o is None else add_tensor(model, o.type, o.data) for o in written]
        extra = [model.tensor(array.shape, array.dtype.name, data=array) for array in self.attributes]
        output = add_tensor(model, self.output)
        model.operator(self.builtin, [*tensors, *extra], [output], self.version, **self.options)
        pairs = zip(tensors, written, strict=True)
        fed = [index for index, o in pairs if o is not None and o.value is not None]
        return model.build(fed, [output])

    def check(self, oracle: Oracle | None, modes: Sequence[Numerics] = X86_NUMERICS) -> dict[Numerics, Array]:
        """Compare bytes, delegation and refusals in every mode; return the specified results.

        Without ``oracle`` only specification and lowering are compared.
        """
        graph, file, results = self.graph(), self.file(), {}
        for mode in modes:
            if self.op.unsupported(self.call(mode)) is not None:
                self._check_refusal(graph, file, mode, oracle)
                continue
            results[mode] = interpret(graph, self.inputs, mode)[0]
            lowered = interpret(lower(graph, mode), self.inputs)[0]
            expect_same(lowered, results[mode], f"{self} lowered in {mode}")
            if oracle is not None:
                answer = oracle.run(file, self.inputs, mode).outputs[0]
                expect_same(results[mode], answer, f"{self} in {mode}")
        if oracle is not None and "xnnpack" in results:
            taken = bool(oracle.delegated_ops(file))
            assert taken == self.op.xnnpack_takes(self.call("xnnpack")), f"{self} delegated: {taken}"
        return results

    def _check_refusal(self, graph: Graph, file: bytes, mode: Numerics, oracle: Oracle | None) -> None:
        with pytest.raises(UnsupportedError):
            lower(graph, mode)
        if oracle is not None and mode == "xnnpack" and self.op.kernel_family(self.call(mode)) == mode:
            with pytest.raises(OracleRefused):
                oracle.run(file, self.inputs, mode)


def add_tensor(model: ModelBuilder, type_: TensorType, data: Array | None = None) -> int:
    """Enter a tensor of ``type_`` into a file."""
    q = type_.quantization
    if q is None:
        return model.tensor(type_.shape, type_.dtype, data=data)
    return model.tensor(type_.shape, type_.dtype, list(q.scales), list(q.zero_points), q.axis or 0, data)


def window_options(
    padding: str,
    stride: tuple[int, int],
    dilation: tuple[int, int] | None = None,
    activation: str = "NONE",
    **others: Any,
) -> dict[str, Any]:
    """Options of an operator whose window slides over images."""
    options = {"padding": padding, "stride_h": stride[0], "stride_w": stride[1]}
    if dilation is not None:
        options |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
    return {**options, **others, "fused_activation_function": activation}


@dataclass(frozen=True)
class Draw:
    """Random choices for one case; every second case is full of ties (powers of two, small weights)."""

    rng: np.random.Generator
    ties: bool

    @classmethod
    def of(cls, seed: int) -> Draw:
        """The choices of this seed."""
        return cls(np.random.default_rng(seed), seed % 2 == 1)

    def pick(self, *choices: Any) -> Any:
        """One of the arguments."""
        return choices[int(self.rng.integers(len(choices)))]

    def dtype(self) -> str:
        """An 8-bit type."""
        return str(self.pick("int8", "uint8"))

    def scale(self, low: float = 0.002, high: float = 0.3) -> float:
        """A float32 scale, log-uniform; a power of two if there shall be ties."""
        drawn = float(np.exp(self.rng.uniform(np.log(low), np.log(high))))
        return self.near(drawn)

    def near(self, scale: float) -> float:
        """``scale`` as float32; the nearest power of two if there shall be ties."""
        return float(np.float32(2.0 ** round(np.log2(scale)) if self.ties else scale))

    def zero_point(self, dtype: str) -> int:
        """A zero point: at the ends, in the middle, anywhere."""
        lowest, highest = INTEGER_RANGE[dtype]
        anywhere = int(self.rng.integers(lowest, highest + 1))
        return int(self.pick(lowest, highest, (lowest + highest + 1) // 2, anywhere))

    def tensor(self, dtype: str, shape: Sequence[int], scale: float | None = None) -> TensorType:
        """A quantized type with one scale."""
        return quantized(dtype, shape, scale or self.scale(), self.zero_point(dtype))

    def codes(self, type_: TensorType) -> Array:
        """Uniform codes."""
        lowest, highest = INTEGER_RANGE[type_.dtype]
        return self.rng.integers(lowest, highest, type_.shape, endpoint=True).astype(type_.numpy)

    def fed(self, type_: TensorType) -> Operand:
        """An operand that the test feeds with random codes."""
        return Operand(type_, value=self.codes(type_))

    def weights(self, dtype: str, shape: tuple[int, ...], axis: int, per_channel: bool) -> Operand:
        """Constant weights: small ones if there shall be ties."""
        channels = shape[axis]
        zero = 0 if dtype == "int8" else self.zero_point(dtype)
        lowest, highest = INTEGER_RANGE[dtype]
        span = (max(zero - 3, lowest), min(zero + 3, highest)) if self.ties else (lowest, highest)
        data = self.rng.integers(*span, shape, endpoint=True).astype(dtype)
        if per_channel and dtype == "int8" and channels > 1:
            scales = tuple(self.scale() for _ in range(channels))
            return Operand(TensorType(dtype, shape, Quantization(scales, (0,) * channels, axis)), data)
        return Operand(quantized(dtype, shape, self.scale(), zero), data)

    def bias(self, x: TensorType, w: TensorType, channels: int) -> Operand:
        """A constant bias with the scales converters write."""
        scales = tuple(float(np.float32(x.quant.scale * s)) for s in w.quant.scales)
        q = Quantization(scales, (0,) * len(scales), 0 if len(scales) > 1 else None)
        limit = 40 if self.ties else 5000
        data = self.rng.integers(-limit, limit, channels).astype(np.int32)
        return Operand(TensorType("int32", (channels,), q), data)

    def weighted_output(self, x: TensorType, w: Operand, taps: int, shape: tuple[int, ...]) -> TensorType:
        """A result whose scale lets random sums of ``taps`` products fill its range; sometimes a tiny one."""
        assert w.data is not None
        spread = float(np.std(w.data.astype(np.float64))) * 74 * np.sqrt(taps) + 1
        scale = x.quant.scale * float(np.median(w.type.quant.scales)) * spread / 50
        return self.tensor(x.dtype, shape, self.near(scale / self.pick(1, 1, 1, 1, 1, 1, 64, 4000)))

    def window(
        self, extent: tuple[int, int], reach: tuple[int, int], stride: tuple[int, int]
    ) -> tuple[str, Padding, tuple[int, int]]:
        """Padding by name and in numbers, and the result's extent; VALID only where the window fits."""
        fits = extent[0] >= reach[0] and extent[1] >= reach[1]
        name = self.pick("SAME", "VALID") if fits else "SAME"
        pads, counts = [], []
        for size, span, step in zip(extent, reach, stride, strict=True):
            count = -(-size // step) if name == "SAME" else (size - span) // step + 1
            total = max((count - 1) * step + span - size, 0) if name == "SAME" else 0
            pads.append((total // 2, total - total // 2))
            counts.append(count)
        return name, (pads[0], pads[1]), (counts[0], counts[1])
