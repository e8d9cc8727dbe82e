"""The functions of C linkage around a program: they check their arguments before they enter it.

NAME_run and NAME_arena_size, NAME_reset of models with state, NAME_run_parallel of those for several threads.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport.codegen.function import I8, I32, I64, PTR
from qimport.codegen.interface import RESULTS, Interface
from qimport.codegen.program import Program, copy_bytes
from qimport.ir.types import ALIGNMENT

POINTER_BYTES = 8
"""Of all present architectures."""

_CODES = {name: code for code, (name, _) in enumerate(RESULTS)}

_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


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
