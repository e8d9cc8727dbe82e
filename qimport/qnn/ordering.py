"""``qnn.arg_max``, ``qnn.arg_min``, ``qnn.top_k`` and ``qnn.cumsum``: results that depend on an order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation

COMPARED = ("bool", "int8", "uint8", "int32", "float32")
RANKED = ("int8", "uint8", "int16", "int32", "int64", "float32")
SUMMED = ("int32", "int64", "float32")


def around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Elements before, along and behind a dimension."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


@dataclass(frozen=True)
class ArgExtremum(QnnOperation):
    """What ARG_MAX and ARG_MIN share: the first place of the best element along ``axis``, in all modes.

    Scales do not enter. A NaN is never better than what was before it. The delegate does not take it.

    C1 x is one of bool, int8, uint8, int32, float32; the result is int32 or int64. C2 ``axis`` is a
    dimension of x, and the result lacks it; nothing is empty.
    """

    BETTER: ClassVar[Any]

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x.dtype in COMPARED, "C1", f"no kernel compares {x.dtype}")
        require(out.dtype in ("int32", "int64"), "C1", f"{out} does not hold places")
        require(0 <= self.axis < len(x.shape) and x.size > 0, "C2", f"{x} has no dimension {self.axis}")
        wanted = (*x.shape[: self.axis], *x.shape[self.axis + 1 :])
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """By index, as the interpreter's loop."""
        x = np.moveaxis(call.array(0), self.axis, 0)
        best, place = x[0], np.zeros(call.output.shape, np.int64)
        for k in range(1, len(x)):
            found = type(self).BETTER(x[k], best)
            best, place = np.where(found, x[k], best), np.where(found, k, place)
        return (place.astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class ArgMax(ArgExtremum):
    """Place of the largest element; rules and constraints of :class:`ArgExtremum`."""

    NAME = "qnn.arg_max"
    TFLITE = ("ARG_MAX",)
    BETTER = np.greater


@operation
@dataclass(frozen=True)
class ArgMin(ArgExtremum):
    """Place of the smallest element; rules and constraints of :class:`ArgExtremum`."""

    NAME = "qnn.arg_min"
    TFLITE = ("ARG_MIN",)
    BETTER = np.less


@operation
@dataclass(frozen=True)
class TopK(QnnOperation):
    """The k largest elements along the last dimension and their places, in all modes.

    Largest first, the earlier of equal ones first. Elements are copied; scales do not enter. The delegate
    does not take it.

    C1 x is int8, uint8, int16, int32, int64 or float32, of at least one dimension. C2 the results are k
    elements like x's, and int32 or int16 places; 0 < k <= the last dimension.
    """

    NAME = "qnn.top_k"
    TFLITE = ("TOPK_V2",)

    k: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x = call.input(0)
        require(x.dtype in RANKED and len(x.shape) > 0, "C1", f"no kernel ranks {x}")
        require(0 < self.k <= x.shape[-1], "C2", f"{x} has no {self.k} elements along its last dimension")
        require(len(call.outputs) == 2, "C2", "there are two results")
        values, places = call.outputs
        shape = (*x.shape[:-1], self.k)
        require(values.shape == places.shape == shape, "C2", f"the results must have shape {shape}")
        typed = values.dtype == x.dtype and places.dtype in ("int32", "int16")
        require(typed, "C2", f"{values} and {places} are no elements and places of {x}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """A stable sort."""
        x = call.array(0)
        order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., : self.k]
        return np.take_along_axis(x, order, axis=-1), order.astype(call.outputs[1].numpy)


@operation
@dataclass(frozen=True)
class Cumsum(QnnOperation):
    """Sums along ``axis`` up to each element, in all modes.

    From 0 by index; ``exclusive`` leaves the element itself out, ``reverse`` begins at the end. Integers
    wrap, float32 sums are rounded one by one. The delegate does not take it.

    C1 x and the result are one type of int32, int64 or float32. C2 ``axis`` is a dimension.
    """

    NAME = "qnn.cumsum"
    TFLITE = ("CUMSUM",)

    axis: int
    exclusive: bool = False
    reverse: bool = False

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x.dtype in SUMMED, "C1", f"no kernel sums {x.dtype}")
        require((x.dtype, x.shape) == (out.dtype, out.shape), "C1", f"{out} does not hold sums of {x}")
        require(0 <= self.axis < len(x.shape), "C2", f"{x} has no dimension {self.axis}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's accumulate, which goes by index."""
        x = np.moveaxis(call.array(0), self.axis, 0)
        ordered = x[::-1] if self.reverse else x
        padded = np.concatenate([np.zeros_like(ordered[:1]), ordered])
        wide = np.int64 if x.dtype == np.int32 else x.dtype
        with np.errstate(all="ignore"):
            sums = np.add.accumulate(padded, axis=0, dtype=wide)
        sums = sums[:-1] if self.exclusive else sums[1:]
        found = (wrap32(sums) if x.dtype == np.int32 else sums).astype(x.dtype)
        return (np.ascontiguousarray(np.moveaxis(found[::-1] if self.reverse else found, 0, self.axis)),)
