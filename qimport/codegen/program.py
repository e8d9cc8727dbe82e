"""A plan as LLVM modules: one for each distinct kernel, and one for the entry that calls them.

Bodies of control flow have entries of their own, and parallel calls tasks, which are private, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from qimport.codegen.dispatch import TASK, dispatch_function
from qimport.codegen.function import I1, I8, I64, PTR
from qimport.codegen.table import Row, choose
from qimport.codegen.target import Target
from qimport.lower.kernel import Kernel
from qimport.lower.plan import ControlCall, KernelCall, Operand, ParallelCall, Plan

Choice = Callable[[Kernel, Target], Row]
Ready = Callable[[str], None]


def _nobody_waits(_text: str) -> None:
    pass


@dataclass(frozen=True)
class Program:
    """Code before LLVM has seen it: the ``kernels`` as text, a module each, and the ``module`` of the entry.

    ``entry`` is ``void entry(ptr inputs, ptr outputs, ptr arena, ptr constants)``; inputs and outputs
    are arrays of pointers; ``constants`` must be kept at an address that is a multiple of 64, and
    ``weight_bytes`` of them are weights and biases. ``rows`` names the kernel row of every call, in the order
    in which the plan prints them.

    The entry of a plan for several threads takes two pointers more, ``parallel_for`` and ``pool``:
    ``void parallel_for(ptr pool, ptr task, ptr context, i64 count)`` must run ``task(context, i)`` for every
    i < count, in any order and at the same time if it likes; where it is NULL the entry does so itself.

    A ``timed`` program takes one pointer more at the end, to an int64 per call of the plan and one before:
    what the clock showed in between.
    """

    kernels: tuple[str, ...]
    module: Any
    entry: str
    constants: bytes
    rows: tuple[str, ...]
    weight_bytes: int

    @property
    def modules(self) -> tuple[str, ...]:
        """LLVM assembly, one text after the other; the last is the entry's."""
        return (*self.kernels, str(self.module))


def generate(
    plan: Plan,
    target: Target,
    prefix: str = "qimport",
    choice: Choice = choose,
    timed: bool = False,
    ready: Ready = _nobody_waits,
) -> Program:
    """Emit every kernel of ``plan`` for ``target``; symbols begin with ``prefix``.

    ``ready`` is called with the text of every kernel as soon as it is written.

    ``choice`` selects kernel rows; tests force other rows with it. ``timed``: read the clock between calls.
    """
    writer = _Writer(target, prefix, choice, ready)
    entry = _Entry(writer, f"{prefix}_entry", plan, timed)
    entry.write()
    blob = b"".join(writer.blobs)
    rows = tuple(writer.rows)
    return Program(tuple(writer.kernels), writer.module, entry.function.name, blob, rows, writer.weight_bytes)


class _Writer:
    """Collects kernels and tables of all entries of a program; ``module`` is that of the entries."""

    def __init__(self, target: Target, prefix: str, choice: Choice, ready: Ready) -> None:
        self.target, self.prefix, self.choice, self.ready = target, prefix, choice, ready
        self.module = self._new_module(prefix)
        self.kernels: list[str] = []
        self.known: dict[Any, Any] = {}
        self.called: dict[Any, tuple[str, Any, int]] = {}
        self.shared: dict[bytes, int] = {}
        self.blobs: list[bytes] = []
        self.size = self.weight_bytes = 0
        self.rows: list[str] = []
        self.bodies = 0
        self.tasks = 0

    def kernel(self, call: KernelCall) -> tuple[Any, int]:
        """The function of the call's kernel, emitted unless an equal one exists, and where its tables lie."""
        same = (call.kernel.key, tuple(map(id, call.constants)))
        if same not in self.called:
            self.called[same] = self._emit(call.kernel)
        row, function, tables = self.called[same]
        self.rows.append(row)
        return function, tables

    def _emit(self, kernel: Kernel) -> tuple[str, Any, int]:
        """Name of the row, function, and offset of the tables; functions are emitted unless known.

        Kernels are modules of their own, so that LLVM can work on several at the same time.
        """
        row = self.choice(kernel, self.target)
        layout = row.layout(kernel, self.target)
        identity = (row.name, kernel.key, tuple(layout.facts.values()))
        if identity not in self.known:
            name = f"{self.prefix}_{len(self.known)}_{row.name}"
            module = self._new_module(name)
            function = row.write(module, name, kernel, self.target, layout)
            self.kernels.append(str(module))
            self.ready(self.kernels[-1])
            self.known[identity] = declared(self.module, name, function.function_type)
        return row.name, self.known[identity], self._store(row.tables(kernel, layout), layout.start)

    def _new_module(self, name: str) -> Any:
        module = ir.Module(name)
        module.triple = self.target.triple
        return module

    def _store(self, tables: bytes, weight_bytes: int) -> int:
        """Offset of ``tables``, which begin with weights, among the constants; equal tables are kept once."""
        if tables not in self.shared:
            self.weight_bytes += weight_bytes
            padded = tables.ljust(-(-len(tables) // 64) * 64, b"\0")
            self.shared[tables] = self.size
            self.blobs.append(padded)
            self.size += len(padded)
        return self.shared[tables]

    def body(self, plan: Plan) -> Any:
        """The entry of a plan that control flow runs."""
        entry = _Entry(self, f"{self.prefix}_body_{self.bodies}", plan)
        self.bodies += 1
        entry.function.linkage = "internal"
        entry.write()
        return entry.function

    def task(self, call: ParallelCall) -> Any:
        """The function that runs the part with an index; its context is the entry's four pointers."""
        self.rows.append("parallel")
        function = ir.Function(self.module, TASK, f"{self.prefix}_task_{self.tasks}")
        self.tasks += 1
        function.linkage = "internal"
        function.attributes.add("nounwind")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        context, index = function.args
        places = [b.gep(context, [I64(number)], source_etype=PTR) for number in range(4)]
        pointers = [b.load(place, typ=PTR) for place in places]
        end = function.append_basic_block("end")
        switch = b.switch(index, end)
        for number, part in enumerate(call.parts):
            block = function.append_basic_block(f"part_{number}")
            switch.add_case(I64(number), block)
            b.position_at_end(block)
            memory = _Memory(self, b, pointers)
            for kernel_call in part:
                memory.call(kernel_call)
            b.branch(end)
        b.position_at_end(end)
        b.ret_void()
        return function

    def dispatch(self) -> Any:
        """The function of :func:`dispatch_function`, once per module."""
        name = f"{self.prefix}_dispatch"
        if name in self.module.globals:
            return self.module.globals[name]
        return dispatch_function(self.module, name)


class _Memory:
    """The four pointers of an entry as a function has them, and kernel calls on what lies behind them."""

    def __init__(self, writer: _Writer, builder: Any, pointers: Sequence[Any]) -> None:
        self.writer, self.b = writer, builder
        self.inputs, self.outputs, self.arena, self.constants = pointers
        self.loaded: dict[tuple[str, int], Any] = {}

    def call(self, call: KernelCall) -> None:
        """Call a kernel."""
        function, tables = self.writer.kernel(call)
        arguments = [self.operand(operand) for operand in call.operands]
        arguments += [self.offset(self.constants, tables), self.operand(call.result)]
        self.b.call(function, arguments)

    def operand(self, operand: Operand) -> Any:
        """The address of an operand; addresses from the caller's arrays are loaded once."""
        if operand.space in ("arena", "state"):
            return self.offset(self.arena, operand.offset)
        key = (operand.space, operand.index)
        if key not in self.loaded:
            array = self.inputs if operand.space == "input" else self.outputs
            place = self.b.gep(array, [I64(operand.index)], source_etype=PTR)
            self.loaded[key] = self.b.load(place, typ=PTR)
        return self.offset(self.loaded[key], operand.offset)

    def offset(self, pointer: Any, offset: int) -> Any:
        """The address ``offset`` bytes after ``pointer``."""
        return self.b.gep(pointer, [I64(offset)], source_etype=I8) if offset else pointer

    def pointers(self, pointers: Iterable[Any]) -> Any:
        """An array of ``pointers`` on the stack."""
        items = list(pointers)
        with self.b.goto_entry_block():
            array = self.b.alloca(PTR, size=I64(len(items)))
        for number, pointer in enumerate(items):
            self.b.store(pointer, self.b.gep(array, [I64(number)], source_etype=PTR))
        return array


class _Entry:
    """The entry of one plan; see :class:`Program`."""

    def __init__(self, writer: _Writer, name: str, plan: Plan, timed: bool = False) -> None:
        self.writer, self.plan, self.timed = writer, plan, timed
        parallel = 2 if plan.threads > 1 else 0
        signature = ir.FunctionType(ir.VoidType(), [PTR] * (4 + parallel + timed))
        self.function = ir.Function(writer.module, signature, name)
        self.function.attributes.add("nounwind")
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.memory = _Memory(writer, self.b, self.function.args[:4])

    def write(self) -> None:
        """Every call of the plan, then the end of the function."""
        self._read_clock(0)
        if self.plan.threads > 1:
            self.context = self.memory.pointers(self.function.args[:4])
        for number, call in enumerate(self.plan.calls):
            if isinstance(call, KernelCall):
                self.memory.call(call)
            elif isinstance(call, ParallelCall):
                self._parallel(call)
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
            place = self.memory.offset(self.function.args[-1], 8 * number)
            self.b.store(self.b.call(clock, []), place, align=8)

    def _parallel(self, call: ParallelCall) -> None:
        """Hand a task with one index per part to the caller's ``parallel_for``."""
        task, count = self.writer.task(call), I64(len(call.parts))
        arguments = [*self.function.args[4:6], task, self.context, count]
        self.b.call(self.writer.dispatch(), arguments)

    def _branch(self, call: ControlCall) -> None:
        """Run the body that the first operand chooses."""
        self.writer.rows.append("branch")
        memory = self.memory
        then, other = map(self.writer.body, call.bodies)
        condition, *operands = map(memory.operand, call.operands)
        inputs, outputs = memory.pointers(operands), memory.pointers(map(memory.operand, call.outcomes))
        arguments = [inputs, outputs, memory.operand(call.scratch), memory.constants]
        with self.b.if_else(self._holds(condition)) as (first, second):
            with first:
                self.b.call(then, arguments)
            with second:
                self.b.call(other, arguments)

    def _loop(self, call: ControlCall) -> None:
        """Keep the values in the results; a round writes the next ones to scratch and copies them."""
        self.writer.rows.append("loop")
        memory = self.memory
        condition, body = map(self.writer.body, call.bodies)
        scratch, constants = memory.operand(call.scratch), memory.constants
        values = [memory.operand(outcome) for outcome in call.outcomes]
        sizes = [outcome.type.nbytes for outcome in call.outcomes]
        *following, verdict = [memory.offset(scratch, offset) for offset in call.next_values]
        present, after, answer = map(memory.pointers, (values, following, [verdict]))
        for value, operand, size in zip(values, map(memory.operand, call.operands), sizes, strict=True):
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

    def _copy(self, destination: Any, source: Any, size: int) -> None:
        copy_bytes(self.writer.module, self.b, destination, source, size)


def copy_bytes(module: Any, b: Any, destination: Any, source: Any, size: int) -> None:
    """A memcpy of ``size`` bytes with the builder ``b``."""
    signature = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I1])
    copy = declared(module, "llvm.memcpy.p0.p0.i64", signature)
    b.call(copy, [destination, source, I64(size), I1(0)])


def declared(module: Any, name: str, signature: Any) -> Any:
    """The function ``name``, declared in ``module`` unless it is known there."""
    known = module.globals.get(name)
    return ir.Function(module, signature, name) if known is None else known
