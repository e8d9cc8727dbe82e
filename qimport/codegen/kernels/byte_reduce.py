"""Sums of bytes over all but the last axis: 16 channels at a time, first in lanes of 16 bits."""

from __future__ import annotations

from typing import Any

from qimport import prim
from qimport.codegen.function import I8, I16, I32, Index
from qimport.codegen.kernels.reduce import Reduction, emit_with
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, retyped, vector_type
from qimport.lower.kernel import Kernel

LANES = 16
"""Bytes of a register."""

MOST = 256
"""Bytes of which the sum fits 16 bits, whichever signedness they have."""

TOGETHER = 8
"""Bytes per round of the loop."""


def applies(kernel: Kernel) -> bool:
    """Sums of bytes whose vectors run along the channels."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.Reduce) or x is None or x.type.dtype not in ("int8", "uint8"):
        return False
    shape = x.type.shape
    last = [axis for axis in op.axes if axis == len(shape) - 1 and shape[axis] != 1]
    return op.kind == "sum" and not last and x.type.size > 0


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Blocks of channels."""
    return emit_with(ByteReduction, LANES, module, name, kernel, target, layout)


class ByteReduction(Reduction):
    """Sums up to ``MOST`` bytes of each channel in 16 bits before they are added to the sums."""

    def columns(self, first: Index, lanes: int) -> Any:
        """The reduced dimensions are walked with one vector of neighbouring columns."""
        zero = constant(vector_type(I32, lanes), 0)

        def row(place: Index, totals: Any) -> list[Any]:
            return [self._row(place, totals[0], lanes)]

        return self.over(self.sizes[:-1], first, [zero], row)[0]

    def _row(self, place: Index, total: Any, lanes: int) -> Any:
        """``total`` plus the bytes along the innermost reduced dimension."""
        fn, count, step = self.fn, self.sizes[-1], self.steps[-1]
        whole = count - count % MOST

        def part(start: Index, total: Any, length: int) -> list[Any]:
            words = self._words(fn.add(place, fn.mul(start, step)), length, lanes)
            return [fn.b.add(total, self._extended(words, I32))]

        (total,) = fn.loop(0, whole, MOST, lambda start, t: part(start, t, MOST), [total])
        return part(whole, total, count - whole)[0] if whole < count else total

    def _words(self, place: Index, count: int, lanes: int) -> Any:
        """The sums of up to ``MOST`` bytes from ``place`` on."""
        fn, step = self.fn, self.steps[-1]
        whole = count - count % TOGETHER

        def added(start: Index, words: Any, number: int) -> list[Any]:
            for k in range(number):
                source = fn.at(self.pointer, fn.add(place, fn.mul(fn.add(start, k), step)))
                words = fn.b.add(words, self._extended(fn.load(source, vector_type(I8, lanes)), I16))
            return [words]

        zero = [constant(vector_type(I16, lanes), 0)]
        (words,) = fn.loop(0, whole, TOGETHER, lambda start, w: added(start, w, TOGETHER), zero)
        return added(whole, words, count - whole)[0]

    def _extended(self, x: Any, element: Any) -> Any:
        extend = self.fn.b.zext if self.dtype == "uint8" else self.fn.b.sext
        return extend(x, retyped(x, element))
