"""A plan as one LLVM module: a private function per distinct kernel, and one entry that calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from qimport.codegen.function import I8, I64, PTR
from qimport.codegen.table import Row, choose
from qimport.codegen.target import Target
from qimport.lower.kernel import Kernel
from qimport.lower.plan import KernelCall, Plan

Choice = Callable[[Kernel, Target], Row]


@dataclass(frozen=True)
class Program:
    """Code before LLVM has seen it.

    ``entry`` is ``void entry(ptr inputs, ptr outputs, ptr arena, ptr constants)``; inputs and outputs
    are arrays of pointers; ``constants`` must be kept at an address that is a multiple of 64. ``rows``
    names the kernel row of every call.
    """

    module: Any
    entry: str
    constants: bytes
    rows: tuple[str, ...]

    @functools.cached_property
    def text(self) -> str:
        """LLVM assembly."""
        return str(self.module)


def generate(plan: Plan, target: Target, prefix: str = "qimport", choice: Choice = choose) -> Program:
    """Emit every kernel of ``plan`` for ``target``; symbols begin with ``prefix``.

    ``choice`` selects kernel rows; tests force other rows with it.
    """
    module = ir.Module(prefix)
    module.triple = target.triple
    writer = _Writer(module, target, prefix, choice)
    for call in plan.calls:
        writer.add(call)
    writer.finish()
    return Program(module, writer.entry.name, b"".join(writer.blobs), tuple(writer.rows))


class _Writer:
    """Collects kernels, tables and calls."""

    def __init__(self, module: Any, target: Target, prefix: str, choice: Choice) -> None:
        self.module, self.target, self.prefix, self.choice = module, target, prefix, choice
        self.known: dict[Any, str] = {}
        self.shared: dict[bytes, int] = {}
        self.blobs: list[bytes] = []
        self.size = 0
        self.rows: list[str] = []
        self.entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * 4), f"{prefix}_entry")
        self.entry.attributes.add("nounwind")
        self.b = ir.IRBuilder(self.entry.append_basic_block("entry"))
        self.loaded: dict[tuple[str, int], Any] = {}

    def add(self, call: KernelCall) -> None:
        """Emit the call's kernel unless an equal one exists, store its tables, call it."""
        kernel = call.kernel
        row = self.choice(kernel, self.target)
        layout = row.layout(kernel, self.target)
        identity = (row.name, kernel.key, tuple(layout.facts.values()))
        if identity not in self.known:
            name = f"{self.prefix}_{len(self.known)}_{row.name}"
            function = row.emit(self.module, name, kernel, self.target, layout)
            function.linkage = "internal"
            function.attributes.add("noinline")  # keeps names for profilers and bounds the stack
            self.known[identity] = name
        place = self._store(row.tables(kernel, layout))
        arguments = [self._address(operand.space, operand.index, operand.offset) for operand in call.operands]
        arguments.append(self._offset(self.entry.args[3], place))
        arguments.append(self._address(call.result.space, call.result.index, call.result.offset))
        self.b.call(self.module.globals[self.known[identity]], arguments)
        self.rows.append(row.name)

    def finish(self) -> None:
        """End the entry function."""
        self.b.ret_void()

    def _store(self, tables: bytes) -> int:
        """Offset of ``tables`` among the constants; equal tables are kept once."""
        if tables not in self.shared:
            padded = tables.ljust(-(-len(tables) // 64) * 64, b"\0")
            self.shared[tables] = self.size
            self.blobs.append(padded)
            self.size += len(padded)
        return self.shared[tables]

    def _address(self, space: str, index: int, offset: int) -> Any:
        if space in ("arena", "state"):
            return self._offset(self.entry.args[2], offset)
        key = (space, index)
        if key not in self.loaded:
            array = self.entry.args[0 if space == "input" else 1]
            place = self.b.gep(array, [I64(index)], source_etype=PTR)
            self.loaded[key] = self.b.load(place, typ=PTR)
        return self._offset(self.loaded[key], offset)

    def _offset(self, pointer: Any, offset: int) -> Any:
        return self.b.gep(pointer, [I64(offset)], source_etype=I8) if offset else pointer
