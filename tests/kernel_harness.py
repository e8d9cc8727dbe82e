"""Compiles one kernel in memory and runs it between inaccessible pages."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from qimport.codegen.host import resolve_target
from qimport.codegen.kernels import SKELETONS
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.ir.graph import Array, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.lower.fuse import Group
from qimport.lower.kernel import Kernel, make_kernel

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
        self.slack = (base + PAGE, pages * PAGE)
        ctypes.memset(base + PAGE, 0xA5, pages * PAGE)
        ctypes.memmove(self.address, content, len(content))

    def read(self) -> bytes:
        """The current content."""
        return ctypes.string_at(self.address, self.size)


@functools.cache
def _initialized() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def target_machine(target: Target, jit: bool) -> Any:
    """LLVM's target machine at full optimization."""
    _initialized()
    options: dict[str, Any] = {"cpu": target.cpu, "features": target.feature_string, "opt": 3}
    options.update({"jit": True} if jit else {"reloc": "pic", "codemodel": "small"})
    return llvm.Target.from_triple(target.triple).create_target_machine(**options)


def optimized(module: Any, target: Target, jit: bool = False, level: int = 2) -> tuple[Any, Any]:
    """The parsed, verified and optimized module, and its target machine."""
    machine = target_machine(target, jit)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    if level:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
        parsed.verify()
    return parsed, machine


def kernel_of(
    nodes: Sequence[Any], result: Value, row_stride: int | None = None, in_place: bool = False
) -> Kernel:
    """A verified kernel of prim nodes, the first of which is the root."""
    kernel = make_kernel(Group(tuple(nodes), result), row_stride, in_place)
    verify_graph(kernel.graph)
    return kernel


def emit(kernel: Kernel, target: Target) -> tuple[Any, TableLayout]:
    """A module with the one function ``kernel``, and its tables."""
    module = ir.Module()
    layout = TableLayout(kernel.graph, target)
    SKELETONS[type(kernel.root.op)](module, "kernel", kernel, target, layout)
    return module, layout


class CompiledKernel:
    """A kernel as a callable; owns the engine its code lives in."""

    def __init__(self, kernel: Kernel, target: Target, level: int = 2) -> None:
        self.kernel = kernel
        module, self.layout = emit(kernel, target)
        parsed, machine = optimized(module, target, True, level)
        self.assembly = machine.emit_assembly(parsed)
        self._engine = llvm.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()
        count = len(kernel.graph.inputs) + 2
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)
        self.function = prototype(self._engine.get_function_address("kernel"))

    def __call__(self, operands: Sequence[Array], at_end: bool, overwritten: int = 0) -> Array:
        """Run between guard pages; checks that operands and the gaps between result rows stay as they were.

        The result of a kernel that works in place goes to operand number ``overwritten``.
        """
        result = self.kernel.result.type
        buffers = [GuardedBuffer(np.ascontiguousarray(array).tobytes(), at_end) for array in operands]
        tables = GuardedBuffer(self.layout.pack(), at_end)
        room, view = _result_room(self.kernel)
        separate = GuardedBuffer(room.tobytes(), at_end)
        target = buffers[overwritten] if self.kernel.in_place else separate
        self.function(*(buffer.address for buffer in buffers), tables.address, target.address)
        for buffer, array in zip(buffers, operands, strict=True):
            if buffer is not target:
                assert buffer.read() == np.ascontiguousarray(array).tobytes(), "an operand was written to"
        found = np.frombuffer(target.read(), result.numpy)
        gaps = np.ones(found.shape, bool)
        gaps[view] = False
        assert np.array_equal(found[gaps].view(np.uint8), room[gaps].view(np.uint8)), "a gap was written to"
        return found[view].reshape(result.shape)


def _result_room(kernel: Kernel) -> tuple[Array, Array]:
    """Memory for the result with its gaps between rows, and the indices of the result's elements in it."""
    type_ = kernel.result.type
    index = np.arange(type_.size, dtype=np.int64)
    if kernel.result_row_stride is not None:
        length = type_.shape[-1]
        index = index // length * kernel.result_row_stride + index % length
    size = int(index[-1]) + 1 if type_.size else 0
    pattern = np.full(size * type_.itemsize, 0x5A, np.uint8)
    return pattern.view(type_.numpy), index


def same_bytes(a: Array, b: Array) -> bool:
    """Equal element types, shapes and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check(
    kernel: Kernel, operands: Sequence[Array], target: str, level: int = 2, overwritten: int = 0
) -> CompiledKernel:
    """Compile, run with guard pages on either side, and demand the interpreter's bytes."""
    compiled = CompiledKernel(kernel, resolve_target(target), level)
    wanted = interpret(kernel.graph, operands)[0]
    for at_end in (False, True):
        found = compiled(operands, at_end, overwritten)
        if not same_bytes(found, wanted):
            where = np.argwhere(found != wanted)[:5].tolist()
            lines = [f"{at}: {found[tuple(at)]} instead of {wanted[tuple(at)]}" for at in where]
            raise AssertionError(f"{kernel.describe()} on {target}: " + "; ".join(lines))
    return compiled
