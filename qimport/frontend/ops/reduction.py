"""What the importers of reductions share: axes and the result's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Operation, Value

MOST_DELEGATED = 6
"""More dimensions than this the delegate does not take, also where they repeat."""


class ReductionClass(Protocol):
    """A qnn operation that reduces over axes."""

    def __call__(self, *, axes: tuple[int, ...], keep_dims: bool, delegable: bool) -> Operation:
        """Make one."""


@dataclass(frozen=True)
class Reduction:
    """Operand, sorted axes, whether they stay with extent 1, whether the file lists few enough of them."""

    x: Value
    axes: tuple[int, ...]
    keep_dims: bool
    delegable: bool

    def emit(self, context: OperatorContext, operation: ReductionClass) -> None:
        """Emit the only node of the operator."""
        pairs = enumerate(self.x.type.shape)
        shape = [1 if i in self.axes else size for i, size in pairs if self.keep_dims or i not in self.axes]
        op = operation(axes=self.axes, keep_dims=self.keep_dims, delegable=self.delegable)
        context.emit(op, (self.x,), shape)


def read_reduction(context: OperatorContext, *dtypes: str) -> Reduction:
    """Read a reduction of one of these element types; axes may be negative, repeat, or be none."""
    context.operands(2)
    x = context.input(0)
    if x.type.dtype not in dtypes:
        context.unsupported(f"the element type is {x.type.dtype}; expected one of {', '.join(dtypes)}", x)
    checks.same_type(context, x, context.out)
    rank = len(x.type.shape)
    stated = context.integers(1, "list of dimensions")
    axes = {context.axis(axis, rank) for axis in stated} if rank else set()
    few = len(stated) <= MOST_DELEGATED
    return Reduction(x, tuple(sorted(axes)), bool(context.option("keep_dims")), few)


def require_scales(context: OperatorContext, x: Value) -> None:
    """Check that 8 and 16 bits have one scale each, and int16 zero points of 0."""
    if x.type.dtype not in ("int8", "uint8", "int16"):
        return
    for value in (x, context.out):
        checks.per_tensor(context, value)
        centred = x.type.dtype != "int16" or value.type.quant.zero_point == 0
        context.require(
            centred, f"the zero point is {value.type.quant.zero_point}; expected 0 for int16", value
        )
