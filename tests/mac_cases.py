"""Kernels of ``prim.mac`` for sweeps: every dimension a list of choices, each taken equally often."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_harness import kernel_of

from qimport import prim
from qimport.fixedpoint import Rounding
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.kernel import Kernel, dense_strides

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 15, 16, 17, 19, 23, 24, 25, 31, 32, 33, 39, 40)
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 36, 47, 48, 49, 63, 64, 65, 70)

CHOICES: dict[str, Sequence[Any]] = {
    "kind": ("dense", "pointwise", "window", "window", "groups", "depthwise", "depthwise"),
    "x_dtype": ("int8", "uint8"),
    "w_dtype": ("int8", "uint8"),
    "zeros": ("middle", "random", "low", "high"),
    "content": ("random", "random", "random", "lowest", "highest", "opposite", "alternating"),
    "bias": ("small", "small", "wrapping"),
    "accumulator": ("int32",),
    "batch": (1, 1, 2),
    "height": (1, 2, 3, 5),
    "width": EXTENTS,
    "inputs": CHANNELS,
    "outputs": CHANNELS,
    "multiplier": (1, 1, 1, 2, 3, 4),
    "window": ((3, 3), (1, 1), (2, 2), (5, 5), (1, 3), (3, 1), (4, 1), (1, 5), (3, 2)),
    "stride": ((1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 3)),
    "dilation": ((1, 1), (1, 1), (1, 1), (2, 2), (1, 3), (2, 1)),
    "rounding": ("double_away", "double_up", "float32_even", "float64_away", None),
    "per_channel": (True, True, False),
    "epilogue": ("clamp", "pair sum", "residual", "residual in place", "channel constant", "lut"),
    "gaps": (None, None, None, None, (0, 0, 1), (0, 0, 13), (2, 3, 0), (0, 1, 0), (1, 0, 2)),
}
"""What a case may be: see :class:`MacCase`."""


@dataclass(frozen=True)
class MacCase:
    """One kernel: geometry, element types, zero points and content of the operands, elementwise nodes behind.

    ``width`` and ``height`` are those of the result. ``rounding`` None means that the sums are the result.
    ``gaps`` are the rows, columns and channels by which the tensor is larger of which the result is part.
    ``runtime`` names operands that are no constants.
    """

    kind: str
    x_dtype: str
    w_dtype: str
    zeros: str
    content: str
    bias: str
    accumulator: str
    batch: int
    height: int
    width: int
    inputs: int
    outputs: int
    multiplier: int
    window: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    rounding: Rounding | None
    per_channel: bool
    epilogue: str
    gaps: tuple[int, int, int] | None
    runtime: tuple[str, ...]
    seed: int

    @property
    def groups(self) -> int:
        """1, the channels, or 2 to 4 groups."""
        if self.kind == "depthwise":
            return self.inputs
        return 2 + self.seed % 3 if self.kind == "groups" else 1

    @property
    def geometry(self) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int], prim.Mac]:
        """Shapes of input and weights; the operation without zero points."""
        window, stride, dilation = self.window, self.stride, self.dilation
        if self.kind in ("dense", "pointwise"):
            window = (1, 1)
        if self.kind == "dense":
            stride = dilation = (1, 1)
        inputs, outputs, groups = self.inputs, self.outputs, self.groups
        if self.kind == "groups":
            inputs, outputs = (groups * -(-count // groups) for count in (inputs, outputs))
        if self.kind == "depthwise":
            outputs = inputs * self.multiplier
        counts = (1, 1) if self.kind == "dense" else (self.height, self.width)
        sizes = [
            (count - 1) * step + (taps - 1) * apart + 1
            for count, step, taps, apart in zip(counts, stride, window, dilation, strict=True)
        ]
        batch = self.batch * self.width if self.kind == "dense" else self.batch
        x, w = (batch, *sizes, inputs), (outputs, *window, inputs // groups)
        return x, w, prim.Mac(stride, dilation, ((0, 0), (0, 0)), groups)  # type: ignore[return-value]

    def kernel(self) -> tuple[Kernel, list[Array]]:
        """The kernel, and arrays for its inputs."""
        return _Build(self).kernel()


class _Build:
    """The state of building one case."""

    def __init__(self, case: MacCase) -> None:
        self.case = case
        self.rng = np.random.default_rng(case.seed)
        self.b = Builder()
        self.arrays: dict[Value, Array] = {}

    def kernel(self) -> tuple[Kernel, list[Array]]:
        case = self.case
        x_shape, w_shape, op = case.geometry
        op = dataclasses.replace(
            op, input_zero=self._zero(case.x_dtype), weight_zero=self._zero(case.w_dtype)
        )
        opposite = "highest" if case.content == "opposite" else case.content
        x = self._operand("x", self._codes(case.x_dtype, x_shape, case.content))
        w = self._value("w", self._codes(case.w_dtype, w_shape, opposite))
        bias = self._value("bias", self._bias(w_shape[0]))
        sums = self.b.emit(op, (x, w, bias), op.result_type(x.type, w.type, bias.type.dtype))
        result = sums if case.rounding is None else self._epilogue(sums, case.rounding)
        in_place = case.rounding is not None and case.epilogue == "residual in place"
        strides = None
        if case.gaps is not None and not in_place:
            strides = dense_strides(np.add(result.type.shape, (0, *case.gaps)).tolist())
        kernel = kernel_of(self.b.nodes, result, strides, in_place)
        return kernel, [self.arrays[value] for value in kernel.graph.inputs]

    def _operand(self, name: str, array: Array) -> Value:
        value = Value(TensorType(array.dtype.name, array.shape), name)
        self.arrays[value] = array
        return value

    def _value(self, name: str, array: Array) -> Value:
        return self._operand(name, array) if name in self.case.runtime else self.b.constant(array, name)

    def _zero(self, dtype: str) -> int:
        low, high = INTEGER_RANGE[dtype]
        choices = {"middle": (low + high + 1) // 2, "low": low, "high": high}
        return choices.get(self.case.zeros, int(self.rng.integers(low, high + 1)))

    def _codes(self, dtype: str, shape: tuple[int, ...], content: str) -> Array:
        low, high = INTEGER_RANGE[dtype]
        if content == "alternating":
            codes = np.where(np.indices(shape).sum(0) % 2, low, high)
        elif content == "random":
            codes = self.rng.integers(low, high + 1, shape)
        else:
            codes = np.full(shape, high if content == "highest" else low)
        return codes.astype(dtype)

    def _bias(self, count: int) -> Array:
        if self.case.accumulator == "int64":
            limit = 20000 if self.case.bias == "small" else 2**45
            return self.rng.integers(-limit, limit, count)
        if self.case.bias == "small":
            return self.rng.integers(-20000, 20000, count).astype(np.int32)
        return np.resize(np.array([2**31 - 1, -(2**31)], np.int64), count).astype(np.int32)

    def _rescale(self, sums: Value, rounding: Rounding) -> Value:
        channels = sums.type.shape[-1] if self.case.per_channel else 1
        scaled = TensorType("int32", sums.type.shape)
        if rounding.startswith("float"):
            scale = np.exp2(self.rng.uniform(-14, -6, channels)).astype(rounding.partition("_")[0])
            return self.b.emit(prim.Rescale(rounding), (sums, self.b.constant(scale)), scaled)
        multiplier = self.rng.integers(2**30, 2**31, channels).astype(np.int32)
        exponent = self.rng.integers(-13, -5, channels).astype(np.int32)
        factors = map(self.b.constant, (multiplier, exponent))
        return self.b.emit(prim.Rescale(rounding), (sums, *factors), scaled)

    def _epilogue(self, sums: Value, rounding: Rounding) -> Value:
        case, dtype = self.case, self.case.x_dtype
        scaled, codes = self._rescale(sums, rounding), TensorType(dtype, sums.type.shape)
        wide = TensorType("int32", sums.type.shape)
        if case.epilogue in ("residual", "residual in place"):
            other = self._operand("other", self._codes(dtype, codes.shape, "random"))
            other = self.b.emit(prim.Cast(), (other,), wide)
            scaled = self.b.emit(prim.Binary("add"), (scaled, other), wide)
        elif case.epilogue == "channel constant":
            constant = self.b.constant(self.rng.integers(-50, 50, codes.shape[-1]).astype(np.int32))
            scaled = self.b.emit(prim.Binary("sub"), (scaled, constant), wide)
        low, high = INTEGER_RANGE[dtype]
        clamped = self.b.emit(prim.Clamp(int(self.rng.integers(low, high)), low, high - 9), (scaled,), codes)
        if dtype == "int16":
            return clamped
        if case.epilogue == "pair sum":
            other = self._operand("other", self._codes(dtype, codes.shape, "random"))
            factors = self.b.constant(np.array([2**27 + 1, -(2**26), 2**33 + 7], np.int64))
            return self.b.emit(prim.PairSum(28, low + 3, high), (clamped, other, factors), codes)
        if case.epilogue != "lut":
            return clamped
        table = self.b.constant(self.rng.integers(low, high + 1, 256).astype(dtype))
        return self.b.emit(prim.Lut(), (clamped, table), codes)


def sample(count: int, seed: int, **choices: Sequence[Any]) -> list[MacCase]:
    """``count`` cases in which every choice of every dimension occurs equally often, in random company.

    ``choices`` replace those of :data:`CHOICES`.
    """
    rng = np.random.default_rng(seed)
    columns = {"runtime": ((),), **CHOICES, **choices}
    drawn = {}
    for name, values in columns.items():
        order = np.resize(np.arange(len(values)), max(count, len(values)))
        drawn[name] = [values[i] for i in rng.permutation(order)[:count]]
    rows = (dict(zip(drawn, row, strict=True)) for row in zip(*drawn.values(), strict=True))
    return [MacCase(**row, seed=seed * 1000 + number) for number, row in enumerate(rows)]
