"""Compiles kernels in memory and runs them between inaccessible pages."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from qimport.codegen import backend
from qimport.codegen.host import resolve_target
from qimport.codegen.jit import load_object
from qimport.codegen.program import Program
from qimport.codegen.table import Row, choose
from qimport.codegen.target import Target
from qimport.ir.graph import Array, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType
from qimport.lower.fuse import Group
from qimport.lower.kernel import Kernel, Strides, dense_strides, make_kernel
from qimport.lower.plan import Plan

PAGE = mmap.PAGESIZE


class GuardedBuffer:
    """``content`` in memory of its own, directly before or directly after a page that must not be touched."""

    def __init__(self, content: bytes, at_end: bool) -> None:
        pages = max(1, -(-len(content) // PAGE))
        self._map = mmap.mmap(-1, (pages + 2) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (base, base + (pages + 1) * PAGE):
            if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.size = len(content)
        self.address = base + PAGE + (pages * PAGE - len(content) if at_end else 0)
        ctypes.memset(base + PAGE, 0xA5, pages * PAGE)
        ctypes.memmove(self.address, content, len(content))

    def read(self) -> bytes:
        """The current content."""
        return ctypes.string_at(self.address, self.size)


def kernel_of(
    nodes: Sequence[Any], result: Value, strides: int | Strides | None = None, in_place: bool = False
) -> Kernel:
    """A verified kernel of prim nodes, the first of which is the root; a number is the stride of rows."""
    if isinstance(strides, int):
        strides = dense_strides((*result.type.shape[:-1], strides))
    kernel = make_kernel(Group(tuple(nodes), result), strides, in_place)
    verify_graph(kernel.graph)
    return kernel


@dataclass(frozen=True)
class Emitted:
    """A kernel in a module: the function's name, and the packed constants it is to be called with."""

    kernel: Kernel
    name: str
    tables: bytes


class KernelModule:
    """Kernels of one target that are compiled together."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.module = ir.Module()
        self.kernels: list[Emitted] = []

    def add(self, kernel: Kernel, row: Row | None = None, name: str = "kernel") -> Emitted:
        """Emit ``kernel`` with ``row``, or with the row that would be chosen."""
        row = choose(kernel, self.target) if row is None else row
        layout = row.layout(kernel, self.target)
        row.write(self.module, name, kernel, self.target, layout)
        self.kernels.append(Emitted(kernel, name, row.tables(kernel, layout)))
        return self.kernels[-1]

    def optimized(self, level: int = 2) -> tuple[Any, Any]:
        """The optimized module and its target machine; ``level`` 0 leaves the code as it was emitted."""
        if level:
            return backend.optimized(str(self.module), self.target)
        parsed = llvm.parse_assembly(str(self.module))
        machine = backend.target_machine(self.target)
        parsed.triple, parsed.data_layout = self.target.triple, str(machine.target_data)
        return parsed, machine

    def object_code(self) -> bytes:
        """An object file."""
        return backend.object_code(str(self.module), self.target)


class CompiledKernels:
    """The kernels of a module as callables; owns the engine their code lives in."""

    def __init__(self, module: KernelModule, level: int = 2) -> None:
        parsed, machine = module.optimized(level)
        self._engine = llvm.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()

    def run(self, emitted: Emitted, operands: Sequence[Array], at_end: bool, overwritten: int = 0) -> Array:
        """Run between guard pages; checks that operands and the gaps between result rows stay as they were.

        The result of a kernel that works in place goes to operand number ``overwritten``.
        """
        kernel, result = emitted.kernel, emitted.kernel.result.type
        buffers = [GuardedBuffer(np.ascontiguousarray(array).tobytes(), at_end) for array in operands]
        tables = GuardedBuffer(emitted.tables, at_end)
        room, view = result_room(kernel), result_indices(kernel)
        separate = GuardedBuffer(room.tobytes(), at_end)
        target = buffers[overwritten] if kernel.in_place else separate
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(buffers) + 2))
        function = prototype(self._engine.get_function_address(emitted.name))
        function(*(buffer.address for buffer in buffers), tables.address, target.address)
        for buffer, array in zip(buffers, operands, strict=True):
            if buffer is not target:
                assert buffer.read() == np.ascontiguousarray(array).tobytes(), "an operand was written to"
        found = np.frombuffer(target.read(), result.numpy)
        gaps = np.ones(found.shape, bool)
        gaps[view] = False
        assert np.array_equal(found[gaps].view(np.uint8), room[gaps].view(np.uint8)), "a gap was written to"
        return found[view].reshape(result.shape)

    def check(self, emitted: Emitted, operands: Sequence[Array], where: str, overwritten: int = 0) -> None:
        """Run with guard pages on either side and demand the interpreter's bytes."""
        wanted = interpret(emitted.kernel.graph, operands)[0]
        for at_end in (False, True):
            found = self.run(emitted, operands, at_end, overwritten)
            if not same_bytes(found, wanted):
                places = np.argwhere(found != wanted)[:5].tolist()
                lines = [f"{at}: {found[tuple(at)]} instead of {wanted[tuple(at)]}" for at in places]
                raise AssertionError(f"{emitted.kernel.describe()} {where}: " + "; ".join(lines))


def result_indices(kernel: Kernel) -> Array:
    """Where the elements of the result are among elements in memory, which may lie apart."""
    return element_indices(kernel.result.type, kernel.result_strides)


def element_indices(type_: TensorType, strides: Strides | None) -> Array:
    """Flat places of the elements of a tensor in row-major order."""
    places = np.indices(type_.shape, dtype=np.int64).reshape(len(type_.shape), type_.size)
    return np.asarray(np.array(strides or dense_strides(type_.shape), np.int64) @ places)


def result_room(kernel: Kernel) -> Array:
    """Memory for the result and the gaps between its rows, filled with a pattern."""
    type_, index = kernel.result.type, result_indices(kernel)
    size = int(index.max()) + 1 if type_.size else 0
    return np.full(size * type_.itemsize, 0x5A, np.uint8).view(type_.numpy)


def same_bytes(a: Array, b: Array) -> bool:
    """Equal element types, shapes and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check(
    kernel: Kernel, operands: Sequence[Array], target: str, level: int = 2, overwritten: int = 0
) -> None:
    """Compile one kernel and check it."""
    module = KernelModule(resolve_target(target))
    emitted = module.add(kernel)
    CompiledKernels(module, level).check(emitted, operands, f"on {target}", overwritten)


def run_program(program: Program, plan: Plan, target: Target, inputs: Sequence[Array]) -> list[Array]:
    """The results of a whole program, each tensor and the arena beside inaccessible memory."""
    code = load_object(backend.object_code(program.modules, target), program.entry, target, plan.threads)
    sources = [GuardedBuffer(np.ascontiguousarray(array).tobytes(), True) for array in inputs]
    results = [GuardedBuffer(bytes(type_.nbytes), True) for type_ in plan.outputs]
    arena, constants = GuardedBuffer(bytes(plan.arena_bytes), True), GuardedBuffer(program.constants, True)
    pointers = [(ctypes.c_void_p * len(those))(*(b.address for b in those)) for those in (sources, results)]
    code(*pointers, arena.address, constants.address)
    pairs = zip(results, plan.outputs, strict=True)
    return [np.frombuffer(buffer.read(), type_.numpy).reshape(type_.shape) for buffer, type_ in pairs]
