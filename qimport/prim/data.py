"""Primitives that move data without arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE


@operation
@dataclass(frozen=True)
class Reshape(Operation):
    """The same elements in row-major order under another shape; never costs a copy by itself.

    C1 element type and element count stay.
    """

    NAME = "prim.reshape"

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        require(x.dtype == out.dtype and x.size == out.size, "C1", f"{x} cannot become {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reshape."""
        return (call.array(0).reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class Bitcast(Operation):
    """The same bytes as elements of another type, as in pairs of float32 that become complex64.

    C1 neither type is of less than a byte, and the result is not bool. C2 the shape stays where elements have
    equally many bytes; otherwise the shape of the smaller elements ends with one more dimension, of as many
    as make a larger one.
    """

    NAME = "prim.bitcast"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        whole = not {x.dtype, out.dtype} & {"int2", "int4"} and (out.dtype != "bool" or x.dtype == "bool")
        require(whole, "C1", f"{x} cannot become {out}")
        small, large = (x, out) if x.itemsize < out.itemsize else (out, x)
        count = large.itemsize // small.itemsize
        wanted = large.shape if count == 1 else (*large.shape, count)
        require(small.shape == wanted, "C2", f"{x} cannot become {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """A view."""
        flat = np.ascontiguousarray(call.array(0)).reshape(-1)
        return (flat.view(call.output.numpy).reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class Broadcast(Operation):
    """Repeat the operand along its dimensions of size 1.

    C1 element type and rank stay; a size changes only where it was 1.
    """

    NAME = "prim.broadcast"

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        fits = x.dtype == out.dtype and len(x.shape) == len(out.shape)
        fits = fits and all(a in (1, b) for a, b in zip(x.shape, out.shape, strict=True))
        require(fits, "C1", f"{x} does not stretch to {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy broadcast, made contiguous."""
        return (np.broadcast_to(call.array(0), call.output.shape).copy(),)


@operation
@dataclass(frozen=True)
class Pad(Operation):
    """Surround with ``value``. ``before`` and ``after`` hold one count >= 0 per dimension.

    C1 there are counts for every dimension and the result shape is x.shape + before + after; element type
    stays. C2 integer tensors have ``value`` among their elements.
    """

    NAME = "prim.pad"

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int | float

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        ranks = len(self.before) == len(self.after) == len(x.shape)
        require(ranks, "C1", f"pads of {len(self.before)} and {len(self.after)} dimensions for {x}")
        pads = zip(x.shape, self.before, self.after, strict=True)
        wanted = tuple(size + before + after for size, before, after in pads)
        require(out.dtype == x.dtype and out.shape == wanted, "C1", f"result must have shape {wanted}")
        require(min((0, *self.before, *self.after)) == 0, "C1", "pads must not be negative")
        if out.dtype in INTEGER_RANGE:
            low, high = INTEGER_RANGE[out.dtype]
            element = low <= self.value <= high and self.value % 1 == 0
            require(element, "C2", f"{self.value} is no element of {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy pad."""
        widths = tuple(zip(self.before, self.after, strict=True))
        return (np.pad(call.array(0), widths, constant_values=self.value) if widths else call.array(0),)


@operation
@dataclass(frozen=True)
class Slice(Operation):
    """x[begin : begin + size * stride : stride] in every dimension; strides may be negative.

    C1 every index is inside x and no stride is 0; the result shape is the number of indices; element type
    stays.
    """

    NAME = "prim.slice"

    begin: tuple[int, ...]
    stride: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        ranks = {len(out.shape), len(x.shape), len(self.begin), len(self.stride)}
        require(out.dtype == x.dtype and len(ranks) == 1, "C1", "element types or ranks differ")
        for size, first, step, count in zip(x.shape, self.begin, self.stride, out.shape, strict=True):
            last = first + (count - 1) * step
            inside = count == 0 or (step != 0 and 0 <= first < size and 0 <= last < size)
            require(inside, "C1", f"indices {first}..{last} by {step} leave a dimension of {size}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        shape = call.output.shape
        parts = zip(self.begin, self.stride, shape, strict=True)
        axes = [first + step * np.arange(count) for first, step, count in parts]
        return (call.array(0)[np.ix_(*axes)] if axes else call.array(0),)


@operation
@dataclass(frozen=True)
class Concat(Operation):
    """Operands one after the other along ``axis`` (>= 0).

    C1 ``axis`` is a dimension of the result; all operands, at least one, have its element type and agree with
    it outside ``axis``, where their sizes add up.
    """

    NAME = "prim.concat"

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1."""
        out, parts = call.output, [call.input(i) for i in range(len(call.inputs))]
        axis, rank = self.axis, len(out.shape)
        require(0 <= axis < rank, "C1", f"{out} has no dimension {axis}")
        require(len(parts) > 0, "C1", "there is nothing to put together")
        for part in parts:
            same = len(part.shape) == rank and part.dtype == out.dtype
            same = same and part.shape[:axis] == out.shape[:axis]
            same = same and part.shape[axis + 1 :] == out.shape[axis + 1 :]
            require(same, "C1", f"{part} does not fit into {out}")
        total = sum(part.shape[axis] for part in parts)
        require(total == out.shape[axis], "C1", "sizes along the axis do not add up")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy concatenate."""
        return (np.concatenate([call.array(i) for i in range(len(call.arrays))], self.axis),)


@operation
@dataclass(frozen=True)
class Transpose(Operation):
    """Dimension i of the result is dimension permutation[i] of the operand.

    C1 ``permutation`` is one, and the result shape follows it; element type stays.
    """

    NAME = "prim.transpose"

    permutation: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        require(sorted(self.permutation) == list(range(len(x.shape))), "C1", "not a permutation")
        wanted = tuple(x.shape[axis] for axis in self.permutation)
        require(out.dtype == x.dtype and out.shape == wanted, "C1", f"result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy transpose, made contiguous."""
        return (call.array(0).transpose(self.permutation).copy(),)
