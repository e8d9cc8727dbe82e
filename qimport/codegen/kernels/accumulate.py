"""Running sums, maxima and minima in vector lanes."""

from __future__ import annotations

from typing import Any, Literal

from qimport.codegen.function import ELEMENTS, I32, KernelFunction
from qimport.codegen.vector import constant, horizontal, pairwise, retyped, vector_type
from qimport.errors import CompilerBug
from qimport.ir.types import INTEGER_RANGE


class Accumulator:
    """Reduces integers of ``dtype``: sums in int32, wrapping; maxima and minima in their own type."""

    def __init__(self, fn: KernelFunction, kind: Literal["sum", "max", "min"], dtype: str) -> None:
        if dtype not in INTEGER_RANGE:
            raise CompilerBug(f"no {kind} of {dtype} elements")
        self.fn = fn
        self.kind = kind
        self.unsigned = dtype.startswith("u")
        self.element = I32 if kind == "sum" else ELEMENTS[dtype]
        lowest, highest = INTEGER_RANGE[dtype]
        self.neutral = {"sum": 0, "max": lowest, "min": highest}[kind]

    def start(self, lanes: int) -> Any:
        """The value of nothing."""
        return constant(vector_type(self.element, lanes), self.neutral)

    def step(self, total: Any, x: Any) -> Any:
        """Take in one more vector of elements."""
        if self.kind != "sum":
            return pairwise(self.fn, ("u" if self.unsigned else "s") + self.kind, total, x)
        if x.type != total.type:
            wide = retyped(x, I32)
            x = self.fn.b.zext(x, wide) if self.unsigned else self.fn.b.sext(x, wide)
        return self.fn.b.add(total, x)

    def across(self, total: Any) -> Any:
        """All lanes reduced to one scalar."""
        operation = "add" if self.kind == "sum" else ("u" if self.unsigned else "s") + self.kind
        return horizontal(self.fn, operation, total)
