"""Kernels made of elementwise nodes only."""

from __future__ import annotations

from typing import Any

from qimport.codegen import byte_requantize
from qimport.codegen.elementwise import emit_nodes, preferred_lanes
from qimport.codegen.function import I64, Index, KernelFunction, index
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Loops over the result with as few dimensions as broadcasting, channels and row strides allow."""
    fn = access.start(module, name, kernel, target)
    elements = _Elements(fn, kernel, layout)
    in_floats = any(byte_requantize.applies(layout, node, target) for node in kernel.graph.nodes)
    lanes = target.vector_bytes if in_floats else preferred_lanes(kernel.graph, target)
    overlap = not kernel.in_place and not layout.per_channel
    speculation = _Speculation(elements, kernel, layout)

    def block(position: list[Index], width: int) -> None:
        if in_floats and width % target.lanes == 0:
            speculation.block(position, width)
        else:
            elements.store(position, elements.computed(position, width))

    def row(outer: list[Index]) -> None:
        fn.blocks(elements.sizes[-1], lanes, overlap, lambda first, width: block([*outer, first], width))

    if kernel.result.type.size:
        access.nest(fn, elements.sizes[:-1], row)
    return fn.finish()


class _Elements:
    """The elements of a kernel's operands and result, seen from one function."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, layout: TableLayout) -> None:
        self.fn, self.kernel, self.layout = fn, kernel, layout
        shape = kernel.result.type.shape
        channel = (*[0] * (len(shape) - 1), 1 if layout.per_channel else 0)[: len(shape)]
        found = access.sources(fn, kernel, layout, kernel.graph.nodes)
        others = [access.result_strides(kernel), channel]
        self.sizes, self.sources, (self.strides, _) = access.collapsed(shape, found, others)

    def computed(self, position: list[Index], width: int, doubts: list[Any] | None = None) -> Any:
        """``width`` results from ``position`` on; ``doubts`` as for :func:`emit_nodes`."""
        values: dict[Value, Any] = {s.value: s.load(self.fn, position, width) for s in self.sources}
        channel = position[-1] if self.layout.per_channel else 0
        nodes = self.kernel.graph.nodes
        emit_nodes(self.fn, nodes, values, channel, width, self.layout, doubts=doubts)
        return values[self.kernel.result]

    def store(self, position: list[Index], value: Any) -> None:
        """Store results."""
        access.store(self.fn, self.kernel, value, access.offset(self.fn, position, self.strides))


class _Speculation:
    """Blocks whose bytes are requantized with floats, and again with integers if any of them is in doubt."""

    def __init__(self, elements: _Elements, kernel: Kernel, layout: TableLayout) -> None:
        self.elements, self.kernel, self.layout = elements, kernel, layout
        self.exact: dict[int, Any] = {}

    def block(self, position: list[Index], width: int) -> None:
        """Compute and store ``width`` results; operands that they overwrite are read before."""
        fn, doubts = self.elements.fn, list[Any]()
        result = self.elements.computed(position, width, doubts)
        byte_requantize.unless_in_doubt(
            fn,
            doubts,
            lambda: self.elements.store(position, result),
            lambda: fn.call(self._exactly(width), [index(number) for number in position]),
        )

    def _exactly(self, width: int) -> Any:
        """The function that does the same with integers: rarely called, so out of the way."""
        if width not in self.exact:
            inner = self.elements.fn.private(f"exact_{width}", (I64,) * len(self.elements.sizes))
            same = _Elements(inner, self.kernel, self.layout)
            position = list(inner.extra)
            same.store(position, same.computed(position, width))
            self.exact[width] = inner.finish()
        return self.exact[width]
