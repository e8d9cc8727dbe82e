"""Where the time of a model goes: every kernel call timed inside the program, and the peak of its row."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.arrays import Array
from qimport.artefact import aligned_bytes, aligned_copy
from qimport.codegen.backend import object_code
from qimport.codegen.jit import load_object
from qimport.codegen.peak import peak_loop
from qimport.codegen.program import generate
from qimport.codegen.target import Target
from qimport.compiler import Compilation
from qimport.lower.kernel import multiply_accumulates
from qimport.lower.plan import ControlCall, ParallelCall, Plan, PlanCall, kernel_calls
from qimport.prim import Pad

PEAK_SAMPLES = 20
"""How often the loops of :mod:`qimport.codegen.peak` run after each run of the model."""


@dataclass(frozen=True)
class CallTime:
    """One call of the plan: the kernel row, its work, and the shortest time in seconds.

    ``bytes_moved`` are those of operands, constants and result, each once. ``peak`` is how many
    multiply-accumulates per second the row's instruction reaches on this machine, None where it has none.
    """

    origin: str
    kernel: str
    row: str
    macs: int
    bytes_moved: int
    seconds: float
    peak: float | None = None

    @property
    def kind(self) -> str:
        """The row and its operations, without the shape."""
        return f"{self.row} {self.kernel.partition(' -> ')[0]}"

    @property
    def fraction_of_peak(self) -> float | None:
        """Multiply-accumulates per second, of those that the instruction reaches."""
        return self.macs / self.seconds / self.peak if self.macs and self.peak and self.seconds else None


@dataclass(frozen=True)
class KindTime:
    """All calls of one kind together."""

    kind: str
    calls: int
    macs: int
    bytes_moved: int
    seconds: float


def by_kind(times: Sequence[CallTime]) -> list[KindTime]:
    """Sums over calls of equal :attr:`CallTime.kind`, the longest first."""
    kinds: dict[str, list[CallTime]] = {}
    for item in times:
        kinds.setdefault(item.kind, []).append(item)
    sums = [
        KindTime(
            kind,
            len(items),
            sum(item.macs for item in items),
            sum(item.bytes_moved for item in items),
            sum(item.seconds for item in items),
        )
        for kind, items in kinds.items()
    ]
    return sorted(sums, key=lambda item: -item.seconds)


def profile(compilation: Compilation, inputs: Sequence[Array], rounds: int = 20) -> list[CallTime]:
    """Run a model ``rounds`` times and take the shortest time of each call of its plan.

    ``inputs``: contiguous arrays of the model's types. The clock is read between the calls of one run, so
    every call finds the caches as it does in use. Peaks are measured between the runs, so that both see the
    same machine.

    Raises:
        TargetError: this machine cannot run the code.
    """
    plan, target = compilation.split_plan, compilation.options.target
    program = _TimedProgram(plan, target, inputs)
    best = np.full(len(plan.calls), np.iinfo(np.int64).max)
    found = {row: peak_loop(row, target) for row in program.rows}
    loops = {row: loop for row, loop in found.items() if loop is not None}
    peaks = dict.fromkeys(loops, 0.0)
    first, started = 0, time.perf_counter()
    for number in range(rounds):
        shown = program.run()
        ended = time.perf_counter()
        first = first if number else int(shown[0])
        best = np.minimum(best, np.diff(shown))
        for row, loop in loops.items():
            peaks[row] = max(peaks[row], *(loop() for _ in range(PEAK_SAMPLES)))
    tick = (ended - started) / max(int(shown[-1]) - first, 1)  # over all runs: what a call adds is little
    return [
        CallTime(
            call.origin,
            _kernel(call),
            row,
            _macs(call),
            _bytes(call),
            int(count) * tick,
            None if row not in peaks else peaks[row] * len(kernel_calls(call)),
        )
        for call, row, count in zip(plan.calls, _rows(plan.calls, program.rows), best, strict=True)
    ]


class _TimedProgram:
    """A program that reads the clock between its calls, loaded, and the memory that it runs on."""

    def __init__(self, plan: Plan, target: Target, inputs: Sequence[Array]) -> None:
        program = generate(plan, target, timed=True)
        self.rows = program.rows
        self._code = load_object(object_code(program.modules, target), program.entry, target, plan.threads)
        self._constants = aligned_copy(program.constants)
        self._arena = aligned_bytes(plan.arena_bytes)
        self._arena[: plan.state_bytes] = np.frombuffer(plan.initial_state, np.uint8)
        self._memory = (inputs, [np.empty(type_.shape, type_.numpy) for type_ in plan.outputs])
        self._inputs, self._outputs = map(_addresses, self._memory)
        self._times = (ctypes.c_int64 * (len(plan.calls) + 1))()

    def run(self) -> npt.NDArray[np.int64]:
        """Run once; what the clock showed before the first call and after each."""
        arena, constants = self._arena.ctypes.data, self._constants.ctypes.data
        self._code.timed(self._inputs, self._outputs, arena, constants, self._times)
        return np.ctypeslib.as_array(self._times)


def _addresses(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _rows(calls: Sequence[PlanCall], rows: Sequence[str]) -> list[str]:
    """The row of every call: that of its first part, and only the kind of control flow."""
    found, position = [], 0
    for call in calls:
        found.append(rows[position + 1 if isinstance(call, ParallelCall) else position])
        position += _row_count(call)
    return found


def _row_count(call: PlanCall) -> int:
    """How many rows a program names for a call."""
    if isinstance(call, ControlCall):
        return 1 + sum(_row_count(inner) for body in call.bodies for inner in body.calls)
    return 1 + len(call.calls) if isinstance(call, ParallelCall) else 1


def _kernel(call: PlanCall) -> str:
    if isinstance(call, ControlCall):
        return call.kind
    if isinstance(call, ParallelCall):
        return f"{len(call.parts)} times {call.calls[0].kernel.describe()}"
    return call.kernel.describe()


def _bytes(call: PlanCall) -> int:
    """Operands, constants and results, each once for every part; of a padding in place only the border."""
    parts = kernel_calls(call)
    operands, results = (
        sum(operand.type.nbytes for operand in side) for side in (call.operands, call.results)
    )
    if any(isinstance(part.kernel.root.op, Pad) and part.kernel.in_place for part in parts):
        return results - operands
    return operands + results + sum(constant.nbytes for part in parts for constant in part.constants)


def _macs(call: PlanCall) -> int:
    """Multiply-accumulates of a call; 0 where its kernels have none, or for control flow."""
    return sum(multiply_accumulates(node) for part in kernel_calls(call) for node in part.kernel.graph.nodes)
