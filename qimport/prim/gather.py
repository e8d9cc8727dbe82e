"""Primitives that move elements to or from places that other tensors say.

Places outside a tensor are clamped into it, each coordinate by itself: code never leaves a tensor, whatever
the indices are. (The interpreter fails there.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import TensorType

INDEX_TYPES = ("int16", "int32", "int64")


def _require_indices(type_: TensorType) -> None:
    require(type_.dtype in INDEX_TYPES, "C1", f"{type_} holds no indices of {' or '.join(INDEX_TYPES)}")


@operation
@dataclass(frozen=True)
class Gather(Operation):
    """x[b..., o..., indices[b..., j...], i...]: operands x, indices.

    ``batch_dims`` leading dimensions b are common to both; ``axis`` counts from the front of x.

    C1 indices are int16, int32 or int64; the element type of x stays. C2 0 <= batch_dims <= axis < rank of x,
    the leading dimensions agree. C3 the result shape is x.shape with the axis replaced by what indices have
    behind the leading dimensions.
    """

    NAME = "prim.gather"

    axis: int
    batch_dims: int = 0

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, indices, out = call.input(0), call.input(1), call.output
        _require_indices(indices)
        require(x.dtype == out.dtype, "C1", f"{x} and {out} differ in element type")
        batch = self.batch_dims
        fits = 0 <= batch <= self.axis < len(x.shape) and x.shape[:batch] == indices.shape[:batch]
        require(
            fits and batch <= len(indices.shape), "C2", f"{indices} does not select along {self.axis} of {x}"
        )
        require(out.shape == self.result_shape(x.shape, indices.shape), "C3", f"{out} has another shape")

    def result_shape(self, x: tuple[int, ...], indices: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of C3."""
        return (*x[: self.axis], *indices[self.batch_dims :], *x[self.axis + 1 :])

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take along one axis of x with its batch dimensions merged."""
        x, batch = call.array(0), self.batch_dims
        indices = np.clip(call.array(1), 0, x.shape[self.axis] - 1)
        merged = x.reshape(math.prod(x.shape[:batch]), *x.shape[batch:])
        picks = indices.reshape(math.prod(x.shape[:batch]), *indices.shape[batch:])
        parts = [np.take(part, pick, self.axis - batch) for part, pick in zip(merged, picks, strict=True)]
        return (np.stack(parts).reshape(call.output.shape),)


def _coordinates(indices: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Clamped coordinates along the first dimensions of ``shape``, one array each."""
    return tuple(np.clip(indices[..., k], 0, shape[k] - 1) for k in range(indices.shape[-1]))


@operation
@dataclass(frozen=True)
class GatherNd(Operation):
    """x[indices[j..., 0], ..., indices[j..., K - 1], i...]: operands x, indices.

    C1 indices are int16, int32 or int64; the element type of x stays. C2 the last dimension of indices, K, is
    at most the rank of x; the result shape is that of indices without it and of x without K dimensions.
    """

    NAME = "prim.gather_nd"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, indices, out = call.input(0), call.input(1), call.output
        _require_indices(indices)
        require(x.dtype == out.dtype, "C1", f"{x} and {out} differ in element type")
        known = len(indices.shape) > 0 and indices.shape[-1] <= len(x.shape)
        require(known, "C2", f"{indices} holds no coordinates of {x}")
        wanted = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        x = call.array(0)
        return (x[_coordinates(call.array(1), x.shape)].reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class ScatterNd(Operation):
    """``base`` changed at coordinates: operands base (None: zeros), indices [j..., K], updates [j..., i...].

    ``set`` stores updates in order, so that the last one of several counts; ``add`` adds them in order
    (integers wrap, bool is or), ``mul`` multiplies. ``max`` takes an update that is greater than what is
    there, ``min`` one that is less.

    C1 indices are int16, int32 or int64; base, updates and the result have one element type, base and the
    result one shape. C2 K is at most the rank of the result; the shape of updates is that of indices without
    K and of the result without K dimensions. C3 only int32 and float32 are multiplied and compared.
    """

    NAME = "prim.scatter_nd"

    kind: Literal["set", "add", "mul", "max", "min"]

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        indices, updates, out = call.input(1), call.input(2), call.output
        base = call.inputs[0]
        _require_indices(indices)
        require(updates.dtype == out.dtype, "C1", f"{updates} and {out} differ in element type")
        same = base is None or (base.dtype, base.shape) == (out.dtype, out.shape)
        require(same, "C1", f"{base} is not like {out}")
        known = len(indices.shape) > 0 and indices.shape[-1] <= len(out.shape)
        require(known, "C2", f"{indices} holds no coordinates of {out}")
        wanted = (*indices.shape[:-1], *out.shape[indices.shape[-1] :])
        require(updates.shape == wanted, "C2", f"updates must have shape {wanted}")
        simple = self.kind in ("set", "add") or out.dtype in ("int32", "float32")
        require(simple, "C3", f"no {self.kind} of {out.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """One update after the other."""
        base, updates, out = call.arrays[0], call.array(2), call.output
        result = np.zeros(out.shape, out.numpy) if base is None else base.copy()
        indices = call.array(1)
        places = np.stack(_coordinates(indices, out.shape), -1).reshape(-1, indices.shape[-1])
        pieces = updates.reshape(len(places), *out.shape[indices.shape[-1] :])
        for place, piece in zip(places, pieces, strict=True):
            with np.errstate(all="ignore"):
                result[tuple(place)] = _UPDATES[self.kind](result[tuple(place)], piece)
        return (result,)


_UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "set": lambda _old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": lambda old, new: np.where(np.less(old, new), new, old),
    "min": lambda old, new: np.where(np.less(new, old), new, old),
}


@operation
@dataclass(frozen=True)
class DynamicSlice(Operation):
    """The box of the result's shape that starts at ``begin``, moved into x where it sticks out.

    Operands x, begin (one number per dimension).

    C1 begin is a vector of int16, int32 or int64 with one number per dimension; the element type of x stays.
    C2 the result has x's rank and is nowhere larger.
    """

    NAME = "prim.dynamic_slice"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        _verify_box(call.input(0), call.output, call.input(1))
        require(call.input(0).dtype == call.output.dtype, "C1", "element types differ")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy slices."""
        x = call.array(0)
        return (x[_box(x.shape, call.output.shape, call.array(1))].copy(),)


@operation
@dataclass(frozen=True)
class UpdateSlice(Operation):
    """x with the box that starts at ``begin`` replaced; the box is moved into x where it sticks out.

    Operands x, the new content of the box, begin (one number per dimension).

    C1 begin is a vector of int16, int32 or int64 with one number per dimension; all else has one element
    type, and the result x's shape. C2 the box has x's rank and is nowhere larger.
    """

    NAME = "prim.update_slice"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, box, out = call.input(0), call.input(1), call.output
        _verify_box(x, box, call.input(2))
        same = x.dtype == box.dtype == out.dtype and x.shape == out.shape
        require(same, "C1", f"{x}, {box} and {out} do not fit together")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """A changed copy."""
        result = call.array(0).copy()
        result[_box(result.shape, call.input(1).shape, call.array(2))] = call.array(1)
        return (result,)


def _verify_box(whole: TensorType, box: TensorType, begin: TensorType) -> None:
    _require_indices(begin)
    require(begin.shape == (len(whole.shape),), "C1", f"{begin} has not one number per dimension of {whole}")
    fits = len(box.shape) == len(whole.shape) and all(
        a <= b for a, b in zip(box.shape, whole.shape, strict=True)
    )
    require(fits, "C2", f"a box of shape {box.shape} does not fit into {whole}")


def _box(whole: tuple[int, ...], box: tuple[int, ...], begin: Array) -> tuple[slice, ...]:
    """Where the box lies."""
    firsts = [min(max(int(b), 0), n - k) for b, n, k in zip(begin, whole, box, strict=True)]
    return tuple(slice(first, first + k) for first, k in zip(firsts, box, strict=True))
