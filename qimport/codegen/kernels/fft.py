"""One pass of the Fourier transform of rows."""

from __future__ import annotations

from typing import Any

from qimport import prim
from qimport.codegen.function import F64, Index, KernelFunction
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.lower.kernel import Kernel

PAIR = 2


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Row by row."""
    op, operands = kernel.root.op, [value for value in kernel.root.inputs if value is not None]
    if not isinstance(op, prim.Fft) or kernel.epilogue or kernel.result_strides is not None:
        raise CompilerBug("a transform kernel is one prim.fft with a dense result")
    fn = access.start(module, name, kernel, target)
    source, roots = (access.pointer_to(fn, kernel, layout, value) for value in operands)
    rows, count, _ = kernel.result.type.shape

    def row(number: Index) -> None:
        first = fn.mul(number, PAIR * count)
        before, result = fn.element(source, first, "float64"), fn.element(fn.result, first, "float64")
        _Pass(fn, before, result, roots, count // (2 * op.span), op.span).emit()

    fn.loop(0, rows, 1, row)
    return fn.finish()


class _Pass:
    """Writes one pass over a row: ``half`` groups of ``span`` neighbours."""

    def __init__(
        self, fn: KernelFunction, source: Any, result: Any, roots: Any, half: int, span: int
    ) -> None:
        self.fn = fn
        self.source = source
        self.result = result
        self.roots = roots
        self.half = half
        self.span = span

    def emit(self) -> None:
        """All groups; those of one root lie together."""

        def group(p: Index) -> None:
            root = self._load(self.roots, self.fn.mul(p, self.span))
            start = self.fn.mul(p, self.span)
            self.fn.loop(0, self.span, 1, lambda k: self._butterfly(root, start, k))

        self.fn.loop(0, self.half, 1, group)

    def _butterfly(self, root: list[Any], start: Index, k: Index) -> None:
        """From two numbers half a row apart to two numbers ``span`` apart."""
        b, fn = self.fn.b, self.fn
        low = fn.add(start, k)
        x = self._load(self.source, low)
        y = self._load(self.source, fn.add(low, self.half * self.span))
        d, e = (b.fsub(one, other) for one, other in zip(x, y, strict=True))
        turned = [
            b.fsub(b.fmul(d, root[0]), b.fmul(e, root[1])),
            b.fadd(b.fmul(d, root[1]), b.fmul(e, root[0])),
        ]
        place = fn.add(fn.mul(start, 2), k)
        self._store([b.fadd(one, other) for one, other in zip(x, y, strict=True)], place)
        self._store(turned, fn.add(place, self.span))

    def _load(self, base: Any, number: Index) -> list[Any]:
        place = self.fn.mul(number, PAIR)
        parts = (self.fn.element(base, self.fn.add(place, i), "float64") for i in range(PAIR))
        return [self.fn.load(part, F64) for part in parts]

    def _store(self, pair: list[Any], number: Index) -> None:
        place = self.fn.mul(number, PAIR)
        for i, part in enumerate(pair):
            self.fn.store(part, self.fn.element(self.result, self.fn.add(place, i), "float64"))
