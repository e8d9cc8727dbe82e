"""LLVM at work: optimization, object code, assembly. The only place that makes target machines."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from qimport.codegen import elf
from qimport.codegen.host import processors
from qimport.codegen.target import Target
from qimport.errors import CompilerBug

LLVM_VERSION = f"LLVM {'.'.join(map(str, llvm.llvm_version_info))}, llvmlite {llvmlite.__version__}"

Progress = Callable[[str, float], None]
"""Takes what is being done, and which part of all work is behind it, 0 to 1."""

MOST_THREADS = 8
"""More would wait for the one that writes the code LLVM compiles."""


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def target_machine(target: Target) -> Any:
    """A target machine for position-independent code; CPU and features come from validated tables only."""
    _initialize()
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.feature_string,
        opt=2,
        reloc=target.architecture.relocation,
        codemodel="small",
    )


def _without_lock(name: str) -> Any:
    """A function of llvmlite's library without the lock that llvmlite holds during each of its calls.

    The lock protects the context that modules share by default. Here every module has a context of its own,
    and the two functions that take long may run on several threads.
    """
    locked = getattr(llvm.ffi.lib, name)
    return getattr(locked, "_cfn", locked)


_RUN_PASSES = _without_lock("LLVMPY_RunNewModulePassManager")
_EMIT = _without_lock("LLVMPY_TargetMachineEmitToMemory")


def optimized(text: str, target: Target) -> tuple[Any, Any]:
    """The parsed and optimized module, and its target machine.

    Raises:
        CompilerBug: when LLVM rejects the text; it is ours.
    """
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple, module.data_layout = target.triple, str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompilerBug(f"LLVM rejects the generated code: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # kernels are vectors already
    options.slp_vectorization = False
    options.loop_unrolling = False  # tiles are unrolled as far as registers go
    builder = llvm.create_pass_builder(machine, options)
    _RUN_PASSES(builder.getModulePassManager(), module, builder)
    return module, machine


def _object(text: str, target: Target) -> bytes:
    """Object code of one module."""
    return _emit(*optimized(text, target), True)


def _bitcode(text: str, target: Target) -> bytes:
    """One module optimized, to be linked with others."""
    bitcode: bytes = optimized(text, target)[0].as_bitcode()
    return bitcode


def _emit(module: Any, machine: Any, as_object: bool) -> bytes:
    """Object code or assembly of a module as it is."""
    with llvm.ffi.OutputString() as reason:
        buffer = _EMIT(machine, module, int(as_object), reason)
        if not buffer:
            raise CompilerBug(f"LLVM cannot emit the generated code: {reason}")
    library = llvm.ffi.lib
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def _threads() -> ThreadPoolExecutor:
    """As many threads as have LLVM work to do side by side."""
    return ThreadPoolExecutor(min(processors(), MOST_THREADS), thread_name_prefix="qimport-llvm")


class ObjectWriter:
    """Compiles modules on other threads while the caller still writes the next ones.

    What becomes one in the end are objects, or modules for targets whose objects :mod:`elf` cannot link. Use
    it as a context: its threads end with the block, at once where an exception ends it.
    """

    def __init__(self, target: Target, progress: Progress | None = None) -> None:
        self._target = target
        self._progress = progress
        self._pool = _threads()
        self._work = _object if target.architecture.links_objects else _bitcode
        self._parts: list[Future[bytes]] = []

    def add(self, text: str) -> None:
        """Compile a module whose symbols nobody outside the object shall see."""
        self._parts.append(self._pool.submit(self._work, text, self._target))
        if self._progress is not None:
            # How many there will be is not known yet: the first fifth is done, and the middle comes nearer.
            self._progress(f"writing kernel {len(self._parts)}", 0.6 - 0.4 * 0.98 ** len(self._parts))

    def finish(self, text: str) -> bytes:
        """Compile the last module, whose symbols stay visible, and link all to a position-independent object.

        The result does not depend on the number of threads or on which module was ready first.
        """
        self.add(text)
        parts = list(self._results())
        if not self._target.architecture.links_objects:
            return _emit(*_linked(parts, self._target), True)
        symbols = elf.read_symbols(elf.read_sections(parts[-1]))
        visible = [symbol.name for symbol in symbols if symbol.is_global and symbol.section]
        return elf.link(parts, visible)

    def _results(self) -> Iterator[bytes]:
        """The parts in the order in which their modules were added."""
        count = len(self._parts)
        for number, item in enumerate(self._parts):
            if self._progress is not None:
                self._progress(f"compiling kernel {number + 1} of {count}", 0.6 + 0.4 * number / count)
            yield item.result()

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def object_code(modules: str | Sequence[str], target: Target) -> bytes:
    """ELF object, position independent, of one module or of several, of which the last stays visible."""
    *others, last = [modules] if isinstance(modules, str) else modules
    with ObjectWriter(target) as writer:
        for text in others:
            writer.add(text)
        return writer.finish(last)


def assembly(modules: str | Sequence[str], target: Target) -> str:
    """Assembly text, written on several threads."""
    texts = [modules] if isinstance(modules, str) else modules
    with _threads() as pool:
        return "\n".join(pool.map(lambda text: emitted_text(*optimized(text, target)), texts))


def linked_module(modules: Sequence[str], target: Target) -> tuple[Any, Any]:
    """One module of several, each optimized by itself as for objects, and its target machine.

    Only the functions of the last one can be seen from outside.
    """
    with _threads() as pool:
        return _linked(list(pool.map(lambda text: _bitcode(text, target), modules)), target)


def _linked(parts: Sequence[bytes], target: Target) -> tuple[Any, Any]:
    """:func:`linked_module` of bitcode."""
    context = llvm.create_context()
    *others, module = [llvm.parse_bitcode(part, context) for part in parts]
    visible = {function.name for function in module.functions if not function.is_declaration}
    for other in others:
        module.link_in(other)
    for function in module.functions:
        if not function.is_declaration and function.name not in visible:
            function.linkage = "internal"
    module.name = ""
    module.verify()
    return module, target_machine(target)


def emitted_text(module: Any, machine: Any) -> str:
    """The assembly of a module as it is."""
    return _emit(module, machine, False).decode()


def engine_of(object_code: bytes, target: Target) -> Any:
    """An execution engine that owns the memory into which an ELF object of ``target`` is loaded."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(target))
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    return engine
