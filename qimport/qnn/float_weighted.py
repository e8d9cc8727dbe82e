"""What weighted operations on floats share: how sums are formed, and bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import summation
from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.numerics import Family
from qimport.qnn.geometry import Geometry, has_bias
from qimport.qnn.optimized_product import optimized_product
from qimport.summation import Float32

LARGEST = float(np.finfo(np.float32).max)

ACTIVATION_BOUNDS = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""What each fused activation of the schema lets through."""


@dataclass(frozen=True)
class Sums:
    """How a kernel sums products: see :class:`qimport.prim.FloatMac` for the fields.

    ``optimized``: as :mod:`qimport.qnn.optimized_product` says, the bias added last.
    """

    fused: bool = False
    bias_first: bool = False
    columns_first: bool = False
    optimized: bool = False


REFERENCE = Sums()
"""One product after the other, the bias last."""

OPTIMIZED = Sums(optimized=True)
"""The matrix product of the optimized kernels."""

BIAS_FIRST = Sums(bias_first=True)
"""One product after the other, from the bias on."""

DELEGATE = Sums(fused=True, bias_first=True)
"""XNNPACK: fused multiply-adds from the bias on."""


def bounds(activation: str, family: Family) -> tuple[float, float]:
    """The range of a fused activation; classic kernels bring infinite sums to the largest numbers."""
    low, high = ACTIVATION_BOUNDS[activation]
    if family == "xnnpack":
        return low, high
    return max(low, -LARGEST), min(high, LARGEST)


class FloatWeighted(Geometry):
    """Operands x, w, bias or None, all float32; sums of products in the order :meth:`sums` states."""

    activation: str
    constant_weights: bool

    def sums(self, call: Call) -> Sums:
        """How this use's kernel sums."""
        raise NotImplementedError

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """The result before the activation."""
        raise NotImplementedError

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        result = self.products(call, bias_of(call), self.sums(call))
        low, high = bounds(self.activation, self.kernel_family(call))
        return (np.minimum(np.maximum(result, np.float32(low)), np.float32(high)),)

    def xnnpack_takes(self, call: Call) -> bool:
        """Whether weights and bias are stored in the file."""
        return self.constant_weights

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        channels = self.verify_geometry(call)
        types = [type_ for type_ in (*call.inputs, call.output) if type_ is not None]
        require(all(type_.dtype == "float32" for type_ in types), "C1", "operands and result must be float32")
        if has_bias(call):
            require(call.input(2).shape == (channels,), "C3", f"the bias must be float32[{channels}]")
        require(self.activation in ACTIVATION_BOUNDS, "C4", f"unknown activation {self.activation}")


def bias_of(call: Call) -> Float32:
    """The bias; zeros where there is none."""
    if has_bias(call):
        return call.array(2)
    return np.zeros(call.output.shape[-1], np.float32)


def product(x: Float32, w: Float32, bias: Float32, sums: Sums) -> Float32:
    """x [R, K] times w [K, N] plus bias [N]."""
    with np.errstate(all="ignore"):
        if sums.optimized:
            return np.asarray(optimized_product(x, w) + bias, np.float32)
        zeros = np.zeros_like(bias)
        start = bias if sums.bias_first else zeros
        result = summation.matrix_product(x, w, start, fused=sums.fused)
        return result if sums.bias_first else np.asarray(result + bias, np.float32)
