"""The kernel table: every row says what it computes, where, what it packs and how its code is made.

:func:`choose` is pure: the first row that applies. Adding a kernel is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from qimport import prim
from qimport.codegen.function import forbid_vectors
from qimport.codegen.isa.blocks import BLOCK_PRODUCTS
from qimport.codegen.isa.channels import CHANNEL_PRODUCTS
from qimport.codegen.isa.dot import DOT_PRODUCTS, WORD_PRODUCTS
from qimport.codegen.isa.instruction import Instruction
from qimport.codegen.isa.taps import TAP_PRODUCTS
from qimport.codegen.kernels import (
    SKELETONS,
    byte_reduce,
    byte_window,
    depthwise_blocks,
    depthwise_tiles,
    mac,
    mac_amx,
    mac_block,
    mac_depthwise,
    mac_depthwise_taps,
    mac_depthwise_tile,
    mac_direct,
    mac_tile,
)
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.ir.graph import Operation
from qimport.lower.kernel import Kernel

Emit = Callable[[Any, str, Kernel, Target, TableLayout], Any]


def _always(kernel: Kernel) -> bool:
    return True


def _no_bytes(kernel: Kernel) -> int:
    return 0


def _no_tables(kernel: Kernel) -> bytes:
    return b""


@dataclass(frozen=True)
class Row:
    """One way to compute one kind of kernel.

    ``applies`` and ``available`` together decide; ``table_bytes`` are reserved in front of the elementwise
    tables for what ``pack`` returns (weights). A row is here only if it is exact wherever it applies.
    """

    name: str
    emit: Emit
    available: Callable[[Target], bool]
    applies: Callable[[Kernel], bool] = _always
    table_bytes: Callable[[Kernel], int] = _no_bytes
    pack: Callable[[Kernel], bytes] = _no_tables

    def write(self, module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
        """The function of a kernel, added to ``module``; see :attr:`Architecture.without_vectors`."""
        before = len(module.functions)
        function = self.emit(module, name, kernel, target, layout)
        if target.architecture.without_vectors and computes_floats(kernel):
            for made in module.functions[before:]:
                forbid_vectors(made, target)
        return function

    def layout(self, kernel: Kernel, target: Target) -> TableLayout:
        """The tables of a kernel in this row."""
        return TableLayout(kernel.graph, target, mac.align(self.table_bytes(kernel)))

    def tables(self, kernel: Kernel, layout: TableLayout) -> bytes:
        """The packed constants of a kernel."""
        return self.pack(kernel).ljust(layout.start, b"\0") + layout.pack()


def computes_floats(kernel: Kernel) -> bool:
    """Whether a kernel computes with floats of any size; float32 factors of integers never are tiny."""
    values = [*kernel.graph.inputs, *(value for node in kernel.graph.nodes for value in node.outputs)]
    constants = [value for node in kernel.graph.nodes for value in node.inputs if value and value.is_constant]
    floats = any(value.type.dtype.startswith(("float", "complex")) for value in values)
    return floats or any(value.type.dtype == "float64" for value in constants)


def _anywhere(target: Target) -> bool:
    return True


def _row_of(family: str, instruction: Instruction, skeleton: ModuleType, packing: ModuleType) -> Row:
    """The row of a skeleton with an instruction; ``packing`` says what it applies to and lays weights out."""
    return Row(
        f"{family}_{instruction.name}",
        lambda module, name, kernel, target, layout: skeleton.emit(
            module, name, kernel, target, layout, instruction
        ),
        instruction.available,
        lambda kernel: packing.applies(kernel, instruction),
        lambda kernel: packing.table_bytes(kernel, instruction),
        lambda kernel: packing.pack(kernel, instruction),
    )


MAC_ROWS: tuple[Row, ...] = (
    Row(
        "mac_amx",
        mac_amx.emit,
        lambda target: target.has("amx-int8"),
        mac_amx.applies,
        lambda kernel: mac_amx.tiling(kernel).table_bytes,
        mac_amx.pack,
    ),
    *(
        _row_of("mac_depthwise_tile", product, mac_depthwise_tile, depthwise_tiles)
        for product in CHANNEL_PRODUCTS
    ),
    *(_row_of("mac_depthwise", product, mac_depthwise_taps, depthwise_blocks) for product in TAP_PRODUCTS),
    Row(
        "mac_depthwise",
        mac_depthwise.emit,
        _anywhere,
        mac_depthwise.applies,
        mac_depthwise.table_bytes,
        mac_depthwise.pack,
    ),
    *(_row_of("mac_block", block, mac_block, mac_block) for block in BLOCK_PRODUCTS),
    *(_row_of("mac_tile", dot, mac_tile, mac_tile) for dot in (*DOT_PRODUCTS, *WORD_PRODUCTS)),
    Row("mac_direct", mac_direct.emit, _anywhere, _always, mac_direct.table_bytes, mac_direct.pack),
)
"""Rows for ``prim.mac``, best first. Depthwise layers never reach the tile rows on any target."""

WINDOW_ROWS = (Row("window_bytes", byte_window.emit, _anywhere, byte_window.applies),)
"""Rows for ``prim.window`` before the generic one."""

REDUCE_ROWS = (Row("reduce_bytes", byte_reduce.emit, lambda target: target.has("neon"), byte_reduce.applies),)
"""Rows for ``prim.reduce`` before the generic one."""

GENERIC_ROWS = {
    root: Row(f"{emit.__module__.rpartition('.')[2]}_generic", emit, _anywhere)
    for root, emit in SKELETONS.items()
}
"""The last row of every root but ``prim.mac``."""

ROWS: dict[type[Operation], tuple[Row, ...]] = {
    **{root: (row,) for root, row in GENERIC_ROWS.items()},
    prim.Window: (*WINDOW_ROWS, GENERIC_ROWS[prim.Window]),
    prim.Reduce: (*REDUCE_ROWS, GENERIC_ROWS[prim.Reduce]),
    prim.Mac: MAC_ROWS,
}
"""The rows of every root, best first."""


def rows_for(kernel: Kernel, target: Target) -> list[Row]:
    """Every row that can compute ``kernel`` on ``target``, best first."""
    rows = ROWS.get(type(kernel.root.op), ())
    return [row for row in rows if row.available(target) and row.applies(kernel)]


def choose(kernel: Kernel, target: Target) -> Row:
    """The row that is used.

    Raises:
        CompilerBug: if there is none.
    """
    rows = rows_for(kernel, target)
    if not rows:
        raise CompilerBug(f"no kernel for {kernel.describe()} on {target.name}")
    return rows[0]
