"""Primitives about the order of elements: the place of the best, the best few, running sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE

ORDERED = (*INTEGER_RANGE, "bool", "float32")


@operation
@dataclass(frozen=True)
class ArgReduce(Operation):
    """out[i, j] = the first k where x[i, k, j] is largest (or smallest).

    A NaN is never better than what was before it.

    C1 x is [outer, n, inner] of ordered elements, n > 0; the result is int32 or int64 [outer, inner]. C2 the
    kind is max or min.
    """

    NAME = "prim.arg_reduce"

    kind: Literal["max", "min"]

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(len(x.shape) == 3 and x.dtype in ORDERED and x.shape[1] > 0, "C1", f"no order in {x}")
        shaped = out.shape == (x.shape[0], x.shape[2]) and out.dtype in ("int32", "int64")
        require(shaped, "C1", f"{out} does not hold places in {x}")
        require(self.kind in ("max", "min"), "C2", f"there is no kind {self.kind}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """By index, as the interpreter's loop."""
        x = call.array(0)
        better = np.greater if self.kind == "max" else np.less
        best, place = x[:, 0], np.zeros(call.output.shape, call.output.numpy)
        for k in range(1, x.shape[1]):
            found = better(x[:, k], best)
            best, place = np.where(found, x[:, k], best), np.where(found, k, place)
        return (place.astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class TopK(Operation):
    """The k largest elements of every row, largest first, the earlier of equal ones first; or their places.

    C1 x is [rows, n] of ordered elements. C2 the result is [rows, k], 0 < k <= n, of x's element type, or of
    int16 or int32 for ``places``.
    """

    NAME = "prim.top_k"

    places: bool = False

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(len(x.shape) == 2 and x.dtype in ORDERED, "C1", f"no order in {x}")
        shaped = len(out.shape) == 2 and out.shape[0] == x.shape[0] and 0 < out.shape[1] <= x.shape[1]
        require(shaped, "C2", f"{out} does not hold the best of {x}")
        wanted = ("int16", "int32") if self.places else (x.dtype,)
        require(out.dtype in wanted, "C2", f"the result must be of {' or '.join(wanted)}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """A stable sort."""
        x, k = call.array(0), call.output.shape[1]
        order = x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :k]
        found = order if self.places else np.take_along_axis(x, order, axis=1)
        return (found.astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class Cumulate(Operation):
    """out[i, k, j] = the sum of x[i, 0..k, j] from 0 by index.

    ``exclusive`` leaves k out, ``reverse`` begins at the end. Integers wrap, float32 sums are rounded one by
    one. C1 x and the result are one [outer, n, inner] of int32, int64 or float32.
    """

    NAME = "prim.cumulate"

    exclusive: bool = False
    reverse: bool = False

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        typed = x.dtype in ("int32", "int64", "float32")
        require(x == out and len(x.shape) == 3 and typed, "C1", f"no running sums of {x} as {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's accumulate, which goes by index."""
        x = call.array(0)
        ordered = x[:, ::-1] if self.reverse else x
        padded = np.concatenate([np.zeros_like(ordered[:, :1]), ordered], axis=1)
        with np.errstate(all="ignore"):
            sums = np.add.accumulate(padded, axis=1, dtype=np.int64 if x.dtype == np.int32 else x.dtype)
        sums = sums[:, :-1] if self.exclusive else sums[:, 1:]
        found = wrap32(sums) if x.dtype == np.int32 else sums
        return (np.ascontiguousarray(found[:, ::-1] if self.reverse else found).astype(x.dtype),)
