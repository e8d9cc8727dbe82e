"""Ahead of time: a model as NAME.o, NAME.h and NAME_example.c, for a C program that carries no run-time.

The object file holds the kernels, the constants and two functions of C linkage: NAME_run, which checks its
arguments before it enters the generated program, and NAME_arena_size; models with state have NAME_reset, too,
and those for several threads NAME_run_parallel.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llvmlite import ir

from qimport.codegen import elf
from qimport.codegen.backend import ObjectWriter, Progress
from qimport.codegen.example import example_text
from qimport.codegen.function import I8, I32, I64, PTR
from qimport.codegen.header import RESULTS, Interface, TensorInfo, c_identifier, header_text
from qimport.codegen.host import host_target
from qimport.codegen.program import Program, copy_bytes, generate
from qimport.codegen.target import Target
from qimport.errors import ArgumentError, CompilerBug, TargetError
from qimport.ir.graph import Numerics
from qimport.ir.types import ALIGNMENT
from qimport.lower.plan import Plan

ALLOWED_UNDEFINED = frozenset({"memcpy", "memmove", "memset"})
"""Symbols an object may leave to the linker: every C library has them, and LLVM emits calls to them."""

POINTER_BYTES = 8
"""Of all present architectures."""

_CODES = {name: code for code, (name, _) in enumerate(RESULTS)}

_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def write_objects(
    name: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    plan: Plan,
    target: Target,
    numerics: Numerics,
    directory: str | os.PathLike[str],
    prefix: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Compile ``plan`` and write NAME.o, NAME.h and NAME_example.c into ``directory``, which may be new.

    NAME is ``name`` made a C identifier; ``prefix`` begins every symbol and is NAME by default. Equal
    arguments give equal bytes. Each file appears complete or not at all.

    Raises:
        ArgumentError: ``prefix`` is no C identifier, or the files cannot be written.
        TargetError: the object cannot be made on this machine.
        CompilerBug: the object needs symbols beyond :data:`ALLOWED_UNDEFINED`.
    """
    file = c_identifier(name)
    prefix = file if prefix is None else prefix
    if prefix != c_identifier(prefix):
        raise ArgumentError(f"the prefix {prefix!r} cannot begin C names; take {c_identifier(prefix)!r}")
    api = Interface(
        name,
        file,
        prefix,
        tuple(inputs),
        tuple(outputs),
        plan.arena_bytes,
        ALIGNMENT,
        target,
        numerics,
        plan.state_bytes,
        plan.threads,
    )
    contents = {
        f"{file}.o": object_file(api, plan, progress),
        f"{file}.h": header_text(api).encode(),
        f"{file}_example.c": example_text(api).encode(),
    }
    return write_files(Path(directory), contents)


def object_file(api: Interface, plan: Plan, progress: Progress | None = None) -> bytes:
    """The relocatable ELF file, position independent and checked for symbols it would need."""
    _check_assembler(api.target)
    with ObjectWriter(api.target, progress) as writer:
        program = generate(plan, api.target, api.prefix, ready=writer.add)
        add_c_api(api, program, plan.initial_state)
        content = writer.finish(str(program.module))
    machine = elf.read_machine(content)
    if machine != api.target.architecture.elf_machine:
        raise CompilerBug(f"the object for {api.target.name} is for ELF machine {machine}")
    if beyond := elf.undefined_symbols(content) - ALLOWED_UNDEFINED:
        raise CompilerBug(f"the object for {api.target.name} needs {', '.join(sorted(beyond))}")
    return content


def _check_assembler(target: Target) -> None:
    """Refuse what would end the process: LLVM assembles text only for the processor it runs on."""
    if target.needs_tile_permission and target.architecture is not host_target().architecture:
        raise TargetError(
            f"objects for {target.name} hold a system call and can be built only on a machine with Linux on "
            f"{target.architecture.name}; build them there, or take a target without amx-int8"
        )


def add_c_api(api: Interface, program: Program, initial_state: bytes = b"") -> None:
    """Give the module of ``program`` its constants and the functions that the header declares."""
    module = program.module
    entry = module.globals[program.entry]
    entry.linkage = "internal"
    constants = _constants(module, f"{api.prefix}_constants", program.constants)
    _define_arena_size(module, api)
    _define_run(module, api, entry, constants, parallel=False)
    if api.threads > 1:
        _define_run(module, api, entry, constants, parallel=True)
    if api.state_bytes:
        _define_reset(module, api, _constants(module, f"{api.prefix}_initial_state", initial_state))


def _constants(module: Any, name: str, content: bytes) -> Any:
    """The constants as one read-only global that only this module sees."""
    data = content or b"\0"
    array = ir.ArrayType(I8, len(data))
    constants = ir.GlobalVariable(module, array, name)
    constants.linkage = "private"
    constants.global_constant = True
    constants.align = ALIGNMENT
    # Every byte as an escape: four times as fast as telling printable ones apart.
    constants.initializer = ir.FormattedConstant(array, 'c"\\' + data.hex("\\") + '"')
    return constants


def _define_arena_size(module: Any, api: Interface) -> None:
    function = ir.Function(module, ir.FunctionType(I64, []), f"{api.prefix}_arena_size")
    ir.IRBuilder(function.append_basic_block("entry")).ret(ir.Constant(I64, api.arena_bytes))


def _define_run(module: Any, api: Interface, entry: Any, constants: Any, parallel: bool) -> None:
    """``int NAME_run(inputs, outputs, arena)``: check everything, then enter the program.

    ``parallel``: ``int NAME_run_parallel(inputs, outputs, arena, parallel_for, pool)``; NAME_run is as if
    ``parallel_for`` were NULL.
    """
    name = f"{api.prefix}_run_parallel" if parallel else f"{api.prefix}_run"
    function = ir.Function(module, ir.FunctionType(I32, [PTR] * (5 if parallel else 3)), name)
    function.attributes.add("nounwind")
    inputs, outputs, arena, *threading = function.args
    if api.threads > 1 and not parallel:
        threading = [ir.Constant(PTR, None)] * 2
    b = ir.IRBuilder(function.append_basic_block("entry"))
    _require_pointers(b, inputs, len(api.inputs), "ERROR_INPUT")
    _require_pointers(b, outputs, len(api.outputs), "ERROR_OUTPUT")
    if api.arena_bytes:
        _require_arena(b, arena, api)
    if api.target.needs_tile_permission:
        _fail_if(b, _differs_from_zero(b, _request_tiles(b)), "ERROR_TILES")
    b.call(entry, [inputs, outputs, arena, _opaque(b, constants), *threading])
    b.ret(ir.Constant(I32, _CODES["OK"]))


def _define_reset(module: Any, api: Interface, initial_state: Any) -> None:
    """``int NAME_reset(arena)``: copy the initial state to the begin of the arena."""
    function = ir.Function(module, ir.FunctionType(I32, [PTR]), f"{api.prefix}_reset")
    function.attributes.add("nounwind")
    (arena,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    _require_arena(b, arena, api)
    copy_bytes(module, b, arena, _opaque(b, initial_state), api.state_bytes)
    b.ret(ir.Constant(I32, _CODES["OK"]))


def _require_arena(b: Any, arena: Any, api: Interface) -> None:
    """Fail if the arena is NULL or not aligned."""
    low_bits = b.and_(b.ptrtoint(arena, I64), ir.Constant(I64, api.arena_alignment - 1))
    _fail_if(b, b.or_(_is_null(b, arena), _differs_from_zero(b, low_bits)), "ERROR_ARENA")


def _require_pointers(b: Any, pointers: Any, count: int, error: str) -> None:
    """Fail if ``pointers`` is NULL, or one of the ``count`` pointers it points to."""
    _fail_if(b, _is_null(b, pointers), error)
    for number in range(count):
        address = b.gep(pointers, [ir.Constant(I64, number)], inbounds=True, source_etype=PTR)
        _fail_if(b, _is_null(b, b.load(address, typ=PTR, align=POINTER_BYTES)), error)


def _is_null(b: Any, pointer: Any) -> Any:
    return b.icmp_unsigned("==", pointer, ir.Constant(PTR, None))


def _differs_from_zero(b: Any, value: Any) -> Any:
    return b.icmp_unsigned("!=", value, ir.Constant(value.type, 0))


def _fail_if(b: Any, condition: Any, error: str) -> None:
    """Return the code of ``error`` where ``condition`` holds, and go on otherwise."""
    with b.if_then(condition, likely=False):
        b.ret(ir.Constant(I32, _CODES[error]))


def _request_tiles(b: Any) -> Any:
    """Ask Linux for AMX tile data by a bare system call; 0 when granted, before or now.

    It is asked in every call: remembering the answer would take mutable state.
    """
    signature = ir.FunctionType(I64, [I64, I64, I64])
    clobbered = "~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}"
    assembly = ir.InlineAsm(signature, "syscall", f"={{rax}},{{rax}},{{rdi}},{{rsi}},{clobbered}", True)
    numbers = (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return b.call(assembly, [ir.Constant(I64, number) for number in numbers])


def _opaque(b: Any, pointer: Any) -> Any:
    """``pointer`` behind an empty instruction, so that LLVM does not look into what it points to.

    Folding single weights into the code would take long, help little and give other code than the JIT's.
    """
    return b.call(ir.InlineAsm(ir.FunctionType(PTR, [PTR]), "", "=r,0", False), [pointer])


def write_files(directory: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write every file beside its place, then rename all: none is ever seen half written.

    Raises:
        ArgumentError: the system refuses.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".qimport-", dir=directory) as scratch:
            for name, content in contents.items():
                Path(scratch, name).write_bytes(content)
            for name in contents:
                os.replace(Path(scratch, name), directory / name)
    except OSError as error:
        raise ArgumentError(f"cannot write to {directory}: {error.strerror or error}") from error
    return [directory / name for name in contents]
