"""Running sums, products and extrema in vector lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport.codegen.function import ELEMENTS, KernelFunction
from qimport.codegen.vector import constant, horizontal, pairwise, retyped, vector_type
from qimport.errors import CompilerBug
from qimport.ir.types import INTEGER_RANGE

_NEUTRAL = {"sum": 0, "prod": 1}
_COMPARISONS = {"max": ">", "min": "<"}
_FLOAT_NEUTRAL = {"sum": -0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}


class Accumulator:
    """Reduces elements of ``dtype`` in ``result``: what ``prim.reduce`` and ``prim.window`` define.

    Integer sums are extended to the result; everything else stays in its own type. Integers may be taken in
    any order, floats must come by index.
    """

    def __init__(
        self, fn: KernelFunction, kind: str, dtype: str, result: str, start: float | None = None
    ) -> None:
        if dtype not in (*INTEGER_RANGE, "bool", "float32"):
            raise CompilerBug(f"no {kind} of {dtype} elements")
        self.fn = fn
        self.kind, _, self.last = kind.partition("_")
        self.floating = dtype == "float32"
        self.unsigned = dtype.startswith("u") or dtype == "bool"
        self.element = ELEMENTS[result]
        self.initial = self._neutral(dtype) if start is None else start

    def _neutral(self, dtype: str) -> float:
        if self.floating:
            return _FLOAT_NEUTRAL[self.kind]
        lowest, highest = INTEGER_RANGE.get(dtype, (0, 1))
        return {**_NEUTRAL, "max": lowest, "min": highest}[self.kind]

    @property
    def associative(self) -> bool:
        """Whether elements of floats may be reduced in parts, as long as these come by index.

        So may extrema that keep the best unless another is better: of equal zeros the first one stays, and
        NaN is never taken. Those that take NaN forget what was before it.
        """
        return self.floating and self.kind in _COMPARISONS and not self.last

    def start(self, lanes: int) -> Any:
        """The value of nothing."""
        return constant(vector_type(self.element, lanes), self.initial)

    def step(self, total: Any, x: Any) -> Any:
        """Take in one more vector of elements."""
        if self.floating:
            return self._float_step(total, x)
        if x.type != total.type:
            wide = retyped(x, self.element)
            x = self.fn.b.zext(x, wide) if self.unsigned else self.fn.b.sext(x, wide)
        if self.kind in _NEUTRAL:
            return self.fn.b.add(total, x) if self.kind == "sum" else self.fn.b.mul(total, x)
        return pairwise(self.fn, ("u" if self.unsigned else "s") + self.kind, total, x)

    def _float_step(self, total: Any, x: Any) -> Any:
        b = self.fn.b
        if self.kind in _NEUTRAL:
            return b.fadd(total, x) if self.kind == "sum" else b.fmul(total, x)
        first, second = (total, x) if self.last else (x, total)
        return b.select(b.fcmp_ordered(_COMPARISONS[self.kind], first, second), first, second)

    def across(self, total: Any) -> Any:
        """All lanes of integers reduced to one scalar."""
        extremum = ("u" if self.unsigned else "s") + self.kind
        operation = {"sum": "add", "prod": "mul"}.get(self.kind, extremum)
        return horizontal(self.fn, operation, total)
