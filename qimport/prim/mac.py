"""``prim.mac``: products summed over a sliding window: convolution, depthwise convolution, matrix product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import TensorType
from qimport.prim.checks import require_padding, require_steps


@operation
@dataclass(frozen=True)
class Mac(Operation):
    """acc[n,y,x,o] = bias[o] + sum (input - input_zero) * (weight - weight_zero), modulo 2^32 or 2^64.

    Operands: input NHWC, 8-bit or int16; weight OHWI, 8-bit or int16, with I = C / groups; bias int32[O], or
    int64[O] beside an int16 input. Result: NHWC with the bias's element type.
    Output channel o reads input channels [g*I, (g+1)*I) with g = o // (O / groups); groups == C is a
    depthwise convolution with output channel c * multiplier + m. A dense layer is [rows, 1, 1, K] with a 1x1
    window.
    Taps outside the image contribute zero. ``padding`` is ((top, bottom), (left, right)).

    C1 ranks are 4, 4, 1. C2 groups divides C and O, and I = C / groups. C3 the bias has O elements.
    C4 stride and dilation are positive, padding is not negative, and the result shape follows from them and
    the window. C5 element types as above; int16 weights have an int16 input.
    """

    NAME = "prim.mac"

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    groups: int = 1
    input_zero: int = 0
    weight_zero: int = 0

    def result_type(self, x: TensorType, w: TensorType, accumulator: str = "int32") -> TensorType:
        """The result for these operands; ``accumulator`` is the element type of the bias."""
        size = [
            (x.shape[1 + a] + sum(self.padding[a]) - (w.shape[1 + a] - 1) * self.dilation[a] - 1)
            // self.stride[a]
            + 1
            for a in (0, 1)
        ]
        return TensorType(accumulator, (x.shape[0], size[0], size[1], w.shape[0]))

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, bias = call.input(0), call.input(1), call.input(2)
        require((len(x.shape), len(w.shape), len(bias.shape)) == (4, 4, 1), "C1", "ranks must be 4, 4, 1")
        channels, outputs = x.shape[3], w.shape[0]
        divides = self.groups > 0 and channels % self.groups == 0 and outputs % self.groups == 0
        require(divides and w.shape[3] * self.groups == channels, "C2", f"{self.groups} groups do not fit")
        require(bias.shape == (outputs,), "C3", f"the bias must have {outputs} elements")
        require_steps("C4", "stride", self.stride)
        require_steps("C4", "dilation", self.dilation)
        require_padding("C4", self.padding)
        wanted = self.result_type(x, w, bias.dtype)
        require(call.output == wanted, "C4", f"result must be {wanted}")
        weights, biases = _BESIDE.get(x.dtype, ((), ()))
        require(w.dtype in weights, "C5", f"no products of {x.dtype} and {w.dtype}")
        require(bias.dtype in biases, "C5", f"no {bias.dtype} bias beside {x.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula; products in float64 where every sum is exact, otherwise in int64."""
        x = call.array(0).astype(np.int64) - self.input_zero
        w = call.array(1).astype(np.int64) - self.weight_zero
        outputs, kh, kw, depth = w.shape
        _, oh, ow, _ = call.output.shape
        x = np.pad(x, ((0, 0), *self.padding, (0, 0)))
        rows = np.arange(oh)[:, None] * self.stride[0] + np.arange(kh) * self.dilation[0]
        cols = np.arange(ow)[:, None] * self.stride[1] + np.arange(kw) * self.dilation[1]
        windows = x[:, rows][:, :, :, cols].transpose(0, 1, 3, 2, 4, 5).astype(np.float64)
        if depth == 1:
            windows = np.repeat(windows, outputs // self.groups, axis=-1)
            acc = np.einsum("nyxhwo,ohw->nyxo", windows, w[..., 0].astype(np.float64), optimize=True)
        else:
            per_group = outputs // self.groups
            split = windows.reshape(*windows.shape[:5], self.groups, depth)
            parts = [
                np.tensordot(
                    split[..., g, :],
                    w[g * per_group : (g + 1) * per_group].astype(np.float64),
                    axes=((3, 4, 5), (1, 2, 3)),
                )
                for g in range(self.groups)
            ]  # every partial sum stays far below 2^53, so float64 is exact
            acc = np.concatenate(parts, axis=-1)
        total = acc.astype(np.int64) + call.array(2)
        return (total if call.output.dtype == "int64" else wrap32(total).astype(np.int32),)


_BYTES = ("int8", "uint8")
_BESIDE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(_BYTES, (_BYTES, ("int32",))),
    "int16": ((*_BYTES, "int16"), ("int32", "int64")),
}
"""Element types of weights and of bias beside those of the input."""
