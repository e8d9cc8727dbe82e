"""Kernels made of elementwise nodes only."""

from __future__ import annotations

from typing import Any

from qimport.codegen.elementwise import emit_nodes, preferred_lanes
from qimport.codegen.function import Index
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Loops over the result with as few dimensions as broadcasting, channels and row strides allow."""
    fn = access.start(module, name, kernel, target)
    nodes, shape = kernel.graph.nodes, kernel.result.type.shape
    channel = (*[0] * (len(shape) - 1), 1 if layout.per_channel else 0)[: len(shape)]
    sizes, sources, (result, channel) = access.collapsed(
        shape, access.sources(fn, kernel, layout, nodes), [access.result_strides(kernel), channel]
    )
    lanes = preferred_lanes(kernel.graph, target)
    overlap = not kernel.in_place and not layout.per_channel

    def row(outer: list[Index]) -> None:
        def block(first: Index, width: int) -> None:
            position = [*outer, first]
            values: dict[Value, Any] = {s.value: s.load(fn, position, width) for s in sources}
            emit_nodes(fn, nodes, values, first if layout.per_channel else 0, width, layout)
            access.store(fn, kernel, values[kernel.result], access.offset(fn, position, result))

        fn.blocks(sizes[-1], lanes, overlap, block)

    if kernel.result.type.size:
        access.nest(fn, sizes[:-1], row)
    return fn.finish()
