"""The functions of C linkage around a program: they check their arguments before they enter it.

NAME_run and NAME_arena_size; NAME_run_parallel for several threads; NAME_reset for models with state;
NAME_weights_size and NAME_check_weights where the weights are a file of their own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport.codegen.function import I8, I32, I64, PTR, word_type
from qimport.codegen.interface import RESULTS, Interface
from qimport.codegen.program import Program, copy_bytes
from qimport.codegen.target import Target
from qimport.ir.types import ALIGNMENT

CODES = {name: code for code, (name, _) in enumerate(RESULTS)}
"""What functions return, by name."""

_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18

_CRC_POLYNOMIAL = 0xEDB88320
"""Of CRC-32 as in zlib and Ethernet, the lowest bit first."""


def add_c_api(api: Interface, program: Program, initial_state: bytes = b"") -> None:
    """Give the module of ``program`` its constants and the functions that the header declares."""
    module = program.module
    entry = module.globals[program.entry]
    entry.linkage = "internal"
    constants = None
    if api.weights is None:
        constants = _constants(module, f"{api.prefix}_constants", program.constants)
    else:
        define_size(module, api, "weights_size", api.weights.nbytes)
        _define_check_weights(module, api)
    define_size(module, api, "arena_size", api.arena_bytes)
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


def define_size(module: Any, api: Interface, name: str, nbytes: int) -> None:
    """``size_t PREFIX_name(void)``."""
    size = word_type(api.target)
    function = ir.Function(module, ir.FunctionType(size, []), f"{api.prefix}_{name}")
    ir.IRBuilder(function.append_basic_block("entry")).ret(ir.Constant(size, nbytes))


def _define_run(module: Any, api: Interface, entry: Any, constants: Any, parallel: bool) -> None:
    """``int NAME_run(inputs, outputs, arena)``: check everything, then enter the program.

    ``constants`` None: there is one more argument, ``weights``. ``parallel``: ``int NAME_run_parallel(...,
    parallel_for, pool)``; NAME_run is as if ``parallel_for`` were NULL.
    """
    name = f"{api.prefix}_run_parallel" if parallel else f"{api.prefix}_run"
    count = 3 + (constants is None) + 2 * parallel
    function = ir.Function(module, ir.FunctionType(I32, [PTR] * count), name)
    function.attributes.add("nounwind")
    inputs, outputs, arena, *others = function.args
    weights = others.pop(0) if constants is None else None
    if api.threads > 1 and not parallel:
        others = [ir.Constant(PTR, None)] * 2
    b = ir.IRBuilder(function.append_basic_block("entry"))
    _require_pointers(b, api.target, inputs, len(api.inputs), "ERROR_INPUT")
    _require_pointers(b, api.target, outputs, len(api.outputs), "ERROR_OUTPUT")
    if api.arena_bytes:
        require_aligned(b, api.target, arena, api.arena_alignment, "ERROR_ARENA")
    if weights is not None:
        require_aligned(b, api.target, weights, ALIGNMENT, "ERROR_WEIGHTS")
    if api.target.needs_tile_permission:
        _fail_if(b, b.not_(is_zero(b, request_tiles(b))), "ERROR_TILES")
    b.call(entry, [inputs, outputs, arena, weights or _opaque(b, constants), *others])
    b.ret(ir.Constant(I32, CODES["OK"]))


def _define_reset(module: Any, api: Interface, initial_state: Any) -> None:
    """``int NAME_reset(arena)``: copy the initial state to the begin of the arena."""
    function = ir.Function(module, ir.FunctionType(I32, [PTR]), f"{api.prefix}_reset")
    function.attributes.add("nounwind")
    (arena,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    require_aligned(b, api.target, arena, api.arena_alignment, "ERROR_ARENA")
    copy_bytes(module, b, arena, _opaque(b, initial_state), api.state_bytes)
    b.ret(ir.Constant(I32, CODES["OK"]))


def _define_check_weights(module: Any, api: Interface) -> None:
    """``int NAME_check_weights(weights)``: whether the CRC-32 of what lies there is the right one.

    A table makes it one step per byte.
    """
    assert api.weights is not None
    function = ir.Function(module, ir.FunctionType(I32, [PTR]), f"{api.prefix}_check_weights")
    function.attributes.add("nounwind")
    (weights,) = function.args
    table = _crc_table(module, f"{api.prefix}_crc_table")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    require_aligned(b, api.target, weights, ALIGNMENT, "ERROR_WEIGHTS")
    start, loop = b.block, function.append_basic_block("loop")
    b.branch(loop)
    b.position_at_end(loop)
    position, remainder = b.phi(I64), b.phi(I32)
    byte = b.load(b.gep(weights, [position], source_etype=I8), typ=I8, align=1)
    index = b.and_(b.xor(remainder, b.zext(byte, I32)), ir.Constant(I32, 0xFF))
    place = b.gep(table, [ir.Constant(I32, 0), index], inbounds=True, source_etype=table.value_type)
    following = b.xor(b.lshr(remainder, ir.Constant(I32, 8)), b.load(place, typ=I32, align=4))
    reached = b.add(position, ir.Constant(I64, 1))
    for phi, first, later in ((position, I64(0), reached), (remainder, I32(0xFFFFFFFF), following)):
        phi.add_incoming(first, start)
        phi.add_incoming(later, loop)
    end = function.append_basic_block("end")
    b.cbranch(b.icmp_unsigned("<", reached, ir.Constant(I64, api.weights.nbytes)), loop, end)
    b.position_at_end(end)
    _fail_if(b, b.icmp_unsigned("!=", b.not_(following), I32(api.weights.crc32)), "ERROR_WEIGHTS")
    b.ret(ir.Constant(I32, CODES["OK"]))


def _crc_table(module: Any, name: str) -> Any:
    """The remainder of every byte."""
    remainders = []
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ (_CRC_POLYNOMIAL if remainder & 1 else 0)
        remainders.append(remainder)
    array = ir.ArrayType(I32, len(remainders))
    table = ir.GlobalVariable(module, array, name)
    table.linkage = "private"
    table.global_constant = True
    table.align = 4
    table.initializer = ir.Constant(array, remainders)
    return table


def require_aligned(b: Any, target: Target, pointer: Any, alignment: int, error: str) -> None:
    """Fail if a pointer is NULL or not aligned."""
    address = b.ptrtoint(pointer, word_type(target))
    low_bits = b.and_(address, ir.Constant(address.type, alignment - 1))
    _fail_if(b, b.or_(_is_null(b, pointer), b.not_(is_zero(b, low_bits))), error)


def _require_pointers(b: Any, target: Target, pointers: Any, count: int, error: str) -> None:
    """Fail if ``pointers`` is NULL or not aligned, or one of the ``count`` pointers it points to is NULL."""
    require_aligned(b, target, pointers, target.pointer_bytes, error)
    for number in range(count):
        address = b.gep(pointers, [ir.Constant(I64, number)], inbounds=True, source_etype=PTR)
        _fail_if(b, _is_null(b, b.load(address, typ=PTR, align=target.pointer_bytes)), error)


def _is_null(b: Any, pointer: Any) -> Any:
    return b.icmp_unsigned("==", pointer, ir.Constant(PTR, None))


def is_zero(b: Any, value: Any) -> Any:
    """Whether an integer is 0, as i1."""
    return b.icmp_unsigned("==", value, ir.Constant(value.type, 0))


def _fail_if(b: Any, condition: Any, error: str) -> None:
    """Return the code of ``error`` where ``condition`` holds, and go on otherwise."""
    with b.if_then(condition, likely=False):
        b.ret(ir.Constant(I32, CODES[error]))


def request_tiles(b: Any) -> Any:
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
