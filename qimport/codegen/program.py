"""A plan as one LLVM module: a private function per distinct kernel, and one entry that calls them.

Bodies of control flow have entries of their own, which are private, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from qimport.codegen.function import I1, I8, I64, PTR
from qimport.codegen.table import Row, choose
from qimport.codegen.target import Target
from qimport.lower.kernel import Kernel
from qimport.lower.plan import ControlCall, KernelCall, Operand, Plan

Choice = Callable[[Kernel, Target], Row]


@dataclass(frozen=True)
class Program:
    """Code before LLVM has seen it.

    ``entry`` is ``void entry(ptr inputs, ptr outputs, ptr arena, ptr constants)``; inputs and outputs
    are arrays of pointers; ``constants`` must be kept at an address that is a multiple of 64. ``rows``
    names the kernel row of every call, in the order in which the plan prints them. A ``timed`` program takes
    one pointer more, to an int64 per call of the plan and one before: what the clock showed in between.
    """

    module: Any
    entry: str
    constants: bytes
    rows: tuple[str, ...]

    @functools.cached_property
    def text(self) -> str:
        """LLVM assembly."""
        return str(self.module)


def generate(
    plan: Plan, target: Target, prefix: str = "qimport", choice: Choice = choose, timed: bool = False
) -> Program:
    """Emit every kernel of ``plan`` for ``target``; symbols begin with ``prefix``.

    ``choice`` selects kernel rows; tests force other rows with it. ``timed``: read the clock between calls.
    """
    module = ir.Module(prefix)
    module.triple = target.triple
    writer = _Writer(module, target, prefix, choice)
    entry = _Entry(writer, f"{prefix}_entry", timed)
    entry.write(plan)
    return Program(module, entry.function.name, b"".join(writer.blobs), tuple(writer.rows))


class _Writer:
    """Collects kernels and tables of all entries of a module."""

    def __init__(self, module: Any, target: Target, prefix: str, choice: Choice) -> None:
        self.module, self.target, self.prefix, self.choice = module, target, prefix, choice
        self.known: dict[Any, str] = {}
        self.shared: dict[bytes, int] = {}
        self.blobs: list[bytes] = []
        self.size = 0
        self.rows: list[str] = []
        self.bodies = 0

    def kernel(self, call: KernelCall) -> tuple[Any, int]:
        """The function of the call's kernel, emitted unless an equal one exists, and where its tables lie."""
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
        self.rows.append(row.name)
        return self.module.globals[self.known[identity]], self._store(row.tables(kernel, layout))

    def _store(self, tables: bytes) -> int:
        """Offset of ``tables`` among the constants; equal tables are kept once."""
        if tables not in self.shared:
            padded = tables.ljust(-(-len(tables) // 64) * 64, b"\0")
            self.shared[tables] = self.size
            self.blobs.append(padded)
            self.size += len(padded)
        return self.shared[tables]

    def body(self, plan: Plan) -> Any:
        """The entry of a plan that control flow runs."""
        entry = _Entry(self, f"{self.prefix}_body_{self.bodies}")
        self.bodies += 1
        entry.function.linkage = "internal"
        entry.write(plan)
        return entry.function


class _Entry:
    """``void entry(ptr inputs, ptr outputs, ptr arena, ptr constants)`` of one plan."""

    def __init__(self, writer: _Writer, name: str, timed: bool = False) -> None:
        self.writer = writer
        self.timed = timed
        signature = ir.FunctionType(ir.VoidType(), [PTR] * (4 + timed))
        self.function = ir.Function(writer.module, signature, name)
        self.function.attributes.add("nounwind")
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.loaded: dict[tuple[str, int], Any] = {}

    def write(self, plan: Plan) -> None:
        """Every call of ``plan``, then the end of the function."""
        self._read_clock(0)
        for number, call in enumerate(plan.calls):
            if isinstance(call, KernelCall):
                self._call(call)
            elif call.kind == "if":
                self._branch(call)
            else:
                self._loop(call)
            self._read_clock(number + 1)
        self.b.ret_void()

    def _read_clock(self, number: int) -> None:
        """Store what the clock shows as entry ``number`` of the times."""
        if self.timed:
            name = self.writer.target.architecture.clock
            clock = declared(self.writer.module, name, ir.FunctionType(I64, []))
            place = self._offset(self.function.args[4], 8 * number)
            self.b.store(self.b.call(clock, []), place, align=8)

    def _call(self, call: KernelCall) -> None:
        function, tables = self.writer.kernel(call)
        arguments = [self._operand(operand) for operand in call.operands]
        arguments += [self._offset(self.function.args[3], tables), self._operand(call.result)]
        self.b.call(function, arguments)

    def _branch(self, call: ControlCall) -> None:
        """Run the body that the first operand chooses."""
        self.writer.rows.append("branch")
        then, other = map(self.writer.body, call.bodies)
        condition, *operands = map(self._operand, call.operands)
        inputs, outputs = self._pointers(operands), self._pointers(map(self._operand, call.outcomes))
        arguments = [inputs, outputs, self._operand(call.scratch), self.function.args[3]]
        with self.b.if_else(self._holds(condition)) as (first, second):
            with first:
                self.b.call(then, arguments)
            with second:
                self.b.call(other, arguments)

    def _loop(self, call: ControlCall) -> None:
        """Keep the values in the results; a round writes the next ones to scratch and copies them."""
        self.writer.rows.append("loop")
        condition, body = map(self.writer.body, call.bodies)
        scratch, constants = self._operand(call.scratch), self.function.args[3]
        values = [self._operand(outcome) for outcome in call.outcomes]
        sizes = [outcome.type.nbytes for outcome in call.outcomes]
        *following, verdict = [self._offset(scratch, offset) for offset in call.next_values]
        present, after, answer = map(self._pointers, (values, following, [verdict]))
        for value, operand, size in zip(values, map(self._operand, call.operands), sizes, strict=True):
            self._copy(value, operand, size)
        head, round_, end = (self.function.append_basic_block(name) for name in ("while", "do", "done"))
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.call(condition, [present, answer, scratch, constants])
        self.b.cbranch(self._holds(verdict), round_, end)
        self.b.position_at_end(round_)
        self.b.call(body, [present, after, scratch, constants])
        for value, new, size in zip(values, following, sizes, strict=True):
            self._copy(value, new, size)
        self.b.branch(head)
        self.b.position_at_end(end)

    def _holds(self, condition: Any) -> Any:
        """Whether the bool at an address is true."""
        return self.b.icmp_unsigned("!=", self.b.load(condition, typ=I8, align=1), I8(0))

    def _pointers(self, pointers: Iterable[Any]) -> Any:
        """An array of ``pointers`` on the stack."""
        items = list(pointers)
        with self.b.goto_entry_block():
            array = self.b.alloca(PTR, size=I64(len(items)))
        for number, pointer in enumerate(items):
            self.b.store(pointer, self.b.gep(array, [I64(number)], source_etype=PTR))
        return array

    def _copy(self, destination: Any, source: Any, size: int) -> None:
        copy_bytes(self.writer.module, self.b, destination, source, size)

    def _operand(self, operand: Operand) -> Any:
        """The address of an operand; addresses from the caller's arrays are loaded once."""
        if operand.space in ("arena", "state"):
            return self._offset(self.function.args[2], operand.offset)
        key = (operand.space, operand.index)
        if key not in self.loaded:
            array = self.function.args[0 if operand.space == "input" else 1]
            place = self.b.gep(array, [I64(operand.index)], source_etype=PTR)
            self.loaded[key] = self.b.load(place, typ=PTR)
        return self._offset(self.loaded[key], operand.offset)

    def _offset(self, pointer: Any, offset: int) -> Any:
        return self.b.gep(pointer, [I64(offset)], source_etype=I8) if offset else pointer


def copy_bytes(module: Any, b: Any, destination: Any, source: Any, size: int) -> None:
    """A memcpy of ``size`` bytes with the builder ``b``."""
    signature = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I1])
    copy = declared(module, "llvm.memcpy.p0.p0.i64", signature)
    b.call(copy, [destination, source, I64(size), I1(0)])


def declared(module: Any, name: str, signature: Any) -> Any:
    """The function ``name``, declared in ``module`` unless it is known there."""
    known = module.globals.get(name)
    return ir.Function(module, signature, name) if known is None else known
