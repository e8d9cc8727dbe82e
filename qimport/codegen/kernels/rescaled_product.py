"""Products over axes, rescaled after every factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qimport import prim
from qimport.codegen.function import ELEMENTS, I32, I64, Index, index
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.fixedpoint import reduced_multiplier
from qimport.lower.kernel import Kernel, dense_strides


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """One result at a time: every factor waits for the one before it."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.RescaledProduct) or x is None or kernel.epilogue:
        raise CompilerBug("a product kernel is one prim.rescaled_product")
    fn = access.start(module, name, kernel, target)
    source, dtype = access.pointer_to(fn, kernel, layout, x), x.type.dtype
    strides, results = dense_strides(x.type.shape), access.result_strides(kernel)
    sizes, (steps,) = access.collapse(
        [x.type.shape[axis] for axis in sorted(op.axes)], [tuple(strides[axis] for axis in sorted(op.axes))]
    )
    multiplier, shift = int(reduced_multiplier(op.multiplier)), 15 - op.exponent

    def factor(place: Index) -> Any:
        code = fn.load(fn.element(source, place, dtype), ELEMENTS[dtype])
        wide = fn.b.zext(code, I64) if dtype.startswith("u") else fn.b.sext(code, I64)
        return fn.b.sub(wide, index(op.zero_point))

    def scaled(value: Any) -> Any:
        product = fn.b.add(fn.b.mul(value, index(multiplier)), index(1 << (shift - 1)))
        return fn.b.sext(fn.b.trunc(fn.b.ashr(product, index(shift)), I32), I64)

    def one(position: list[Index]) -> None:
        first = access.offset(fn, position, strides)

        def level(axis: int, place: Index, started: bool, total: Any) -> Any:
            """``started`` says that ``total`` already has the first element of this part."""
            if axis == len(sizes):
                return total if started else scaled(fn.b.mul(total, factor(place)))

            def inside(k: Index, inner: Any) -> Sequence[Any]:
                return [level(axis + 1, fn.add(place, fn.mul(k, steps[axis])), False, inner)]

            begin = level(axis + 1, place, started, total)
            return fn.loop(1, sizes[axis], 1, inside, [begin])[0]

        product = scaled(level(0, first, True, factor(first)))
        access.store(fn, kernel, fn.b.trunc(product, I32), access.offset(fn, position, results))

    access.nest(fn, kernel.result.type.shape, one)
    return fn.finish()
