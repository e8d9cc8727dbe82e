"""``qnn.dynamic_slice`` and ``qnn.dynamic_update_slice``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation


def _require_box(whole: TensorType, box: TensorType, begin: TensorType) -> None:
    known = begin.dtype in ("int32", "int64") and begin.shape == (len(whole.shape),)
    require(known, "C1", f"{begin} has not one int32 or int64 number per dimension of {whole}")
    require(whole.dtype == box.dtype, "C2", f"{whole} and {box} differ in element type")
    fits = len(box.shape) == len(whole.shape)
    fits = fits and all(a <= b for a, b in zip(box.shape, whole.shape, strict=True))
    require(fits, "C2", f"{box} does not fit into {whole}")


def _box(whole: tuple[int, ...], box: tuple[int, ...], begin: Array) -> tuple[slice, ...]:
    """Where the box lies: moved into the whole where it sticks out."""
    firsts = [min(max(int(b), 0), n - k) for b, n, k in zip(begin, whole, box, strict=True)]
    return tuple(slice(first, first + k) for first, k in zip(firsts, box, strict=True))


@operation
@dataclass(frozen=True)
class DynamicSlice(QnnOperation):
    """The box of the result's shape that begins where the second operand says; any type, all modes equal.

    This is SLICE with a begin computed at run time and a constant size. The interpreter fails where the box
    sticks out; here it is moved inside.

    C1 begin is int32 or int64 with one number per dimension. C2 x and the result have one element type and
    rank; the result is nowhere larger.
    """

    NAME = "qnn.dynamic_slice"
    TFLITE: ClassVar[tuple[str, ...]] = ("SLICE",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        _require_box(call.input(0), call.output, call.input(1))

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy slices."""
        x = call.array(0)
        return (x[_box(x.shape, call.output.shape, call.array(1))].copy(),)


@operation
@dataclass(frozen=True)
class DynamicUpdateSlice(QnnOperation):
    """x with a box replaced; operands x, the box's content, begin. Any type, all modes equal.

    The box is moved inside x where it sticks out, as in the interpreter.

    C1 begin is int32 or int64 with one number per dimension. C2 x and the content have one element type and
    rank; the content is nowhere larger. C3 the result is like x.
    """

    NAME = "qnn.dynamic_update_slice"
    TFLITE: ClassVar[tuple[str, ...]] = ("DYNAMIC_UPDATE_SLICE",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, content, begin, out = (*(call.input(i) for i in range(3)), call.output)
        _require_box(x, content, begin)
        require((x.dtype, x.shape) == (out.dtype, out.shape), "C3", f"{x} and {out} differ")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """A changed copy."""
        result = call.array(0).copy()
        result[_box(result.shape, call.input(1).shape, call.array(2))] = call.array(1)
        return (result,)
