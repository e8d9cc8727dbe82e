"""Several levels of an architecture in one object: NAME_reset finds out which one this processor has.

Each level is the whole program with a C API of its own, whose names the linker hides; the visible functions
pass calls on. They keep no state either: the level stands in a word at the end of the caller's arena.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from llvmlite import ir

from qimport.codegen.c_api import CODES, define_size, is_zero, request_tiles, require_aligned
from qimport.codegen.function import I8, I32, I64, PTR
from qimport.codegen.host import resolve_target
from qimport.codegen.interface import Interface, c_identifier
from qimport.codegen.target import ARCHITECTURES, Evidence, Target
from qimport.errors import TargetError

WORD_BYTES = 8
"""Of the word that says which level was chosen."""

SYSTEM_FUNCTIONS = {"auxv": "getauxval"}
"""Source of evidence -> the function of the C library that gives it."""

_OSXSAVE = Evidence("cpuid", (1, 0, 2), 1 << 27)
"""Whether user mode may read the extended control register 0."""


def levels_of(target: Target, names: Sequence[str] = ()) -> tuple[Target, ...]:
    """``target`` and the levels above it, the best last: those called ``names``, or all that are usual.

    Raises:
        TargetError: the architecture has no levels, none of them is above ``target``, or a name is wrong.
    """
    architecture = target.architecture
    if not architecture.levels:
        known = ", ".join(name for name, other in ARCHITECTURES.items() if other.levels)
        raise TargetError(f"code for {architecture.name} has one level only; --dispatch is for {known}")
    found = {target.features: target}
    for level in map(resolve_target, names or architecture.levels):
        if level.architecture is architecture and level.features >= target.features:
            found.setdefault(level.features, level)
        elif names:
            raise TargetError(f"{level.name} is no level above {target.name}: it has not all of its features")
    if len(found) == 1:
        raise TargetError(
            f"no level is above {target.name}; --dispatch takes a lower one to begin with, such as "
            f"--target {architecture.levels[0]}"
        )
    return tuple(sorted(found.values(), key=lambda level: len(level.features)))


def with_levels(api: Interface, levels: tuple[Target, ...]) -> Interface:
    """``api`` with the word of the level behind what the program takes of the arena."""
    return replace(api, levels=levels, arena_bytes=_word_offset(api.arena_bytes) + WORD_BYTES)


def interface_of_level(api: Interface, level: Target, arena_bytes: int) -> Interface:
    """The hidden API of one level; ``arena_bytes`` are those of the plan."""
    prefix = f"{api.prefix}_{c_identifier(level.name)}"
    return replace(api, prefix=prefix, target=level, levels=(), arena_bytes=arena_bytes)


def system_functions(levels: Sequence[Target]) -> frozenset[str]:
    """What the code that chooses calls."""
    return frozenset(SYSTEM_FUNCTIONS[source] for source in _sources(levels) & SYSTEM_FUNCTIONS.keys())


def takes_assembler(levels: Sequence[Target]) -> bool:
    """Whether that code holds instructions which only an assembler knows."""
    return not _sources(levels) <= SYSTEM_FUNCTIONS.keys()


def _sources(levels: Sequence[Target]) -> set[str]:
    return {evidence.source for level in levels for evidence in _evidence(level, levels[0])}


def dispatching_module(api: Interface) -> Any:
    """The public functions of an object with levels."""
    module = ir.Module(f"{api.prefix}_dispatch")
    parts = [interface_of_level(api, level, 0) for level in api.levels]
    define_size(module, api, "arena_size", api.arena_bytes)
    _define_reset(module, api, [_hidden(module, part, "reset", 1) for part in parts if api.state_bytes])
    _define_level(module, api)
    _define_run(module, api, [_hidden(module, part, "run", 3) for part in parts], "run")
    if api.threads > 1:
        runs = [_hidden(module, part, "run_parallel", 5) for part in parts]
        _define_run(module, api, runs, "run_parallel")
    return module


def _hidden(module: Any, part: Interface, name: str, pointers: int) -> Any:
    """A function of a level."""
    return ir.Function(module, ir.FunctionType(I32, [PTR] * pointers), f"{part.prefix}_{name}")


def _define_reset(module: Any, api: Interface, resets: Sequence[Any]) -> None:
    """``int NAME_reset(arena)``: write the word of the best level, then let its reset write the state."""
    function = ir.Function(module, ir.FunctionType(I32, [PTR]), f"{api.prefix}_reset")
    function.attributes.add("nounwind")
    (arena,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    require_aligned(b, api.target, arena, api.arena_alignment, "ERROR_ARENA")

    def take(number: int) -> None:
        b.store(ir.Constant(I64, _magic(api) + number), _word(b, api, arena), align=WORD_BYTES)
        b.ret(b.call(resets[number], [arena]) if resets else ir.Constant(I32, CODES["OK"]))

    processor = _Processor(module, b)
    present = [processor.has(_evidence(level, api.target)) for level in api.levels]
    for number in range(len(api.levels) - 1, 0, -1):
        with b.if_then(present[number]):
            if api.levels[number].needs_tile_permission:
                with b.if_then(is_zero(b, request_tiles(b))):
                    take(number)
            else:
                take(number)
    take(0)


def _define_level(module: Any, api: Interface) -> None:
    """``int NAME_level(arena)``: the number of the level, -1 where reset has chosen none."""
    function = ir.Function(module, ir.FunctionType(I32, [PTR]), f"{api.prefix}_level")
    function.attributes.add("nounwind")
    (arena,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    none = ir.Constant(I32, -1)
    with b.if_then(is_zero(b, b.ptrtoint(arena, I64))):
        b.ret(none)
    number = b.sub(b.load(_word(b, api, arena), typ=I64, align=1), ir.Constant(I64, _magic(api)))
    known = b.icmp_unsigned("<", number, ir.Constant(I64, len(api.levels)))
    b.ret(b.select(known, b.trunc(number, I32), none))


def _define_run(module: Any, api: Interface, runs: Sequence[Any], name: str) -> None:
    """NAME_run or NAME_run_parallel: what the level of the arena does, which checks the other arguments."""
    function = ir.Function(module, runs[0].function_type, f"{api.prefix}_{name}")
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    arena = function.args[2]
    require_aligned(b, api.target, arena, api.arena_alignment, "ERROR_ARENA")
    unknown = function.append_basic_block("unknown")
    choice = b.switch(b.load(_word(b, api, arena), typ=I64, align=WORD_BYTES), unknown)
    for number, run in enumerate(runs):
        block = function.append_basic_block(f"level{number}")
        choice.add_case(ir.Constant(I64, _magic(api) + number), block)
        b.position_at_end(block)
        b.ret(b.call(run, function.args))
    b.position_at_end(unknown)
    b.ret(ir.Constant(I32, CODES["ERROR_ARENA"]))


def _word_offset(arena_bytes: int) -> int:
    """Where the word lies behind so many bytes."""
    return -(-arena_bytes // WORD_BYTES) * WORD_BYTES


def _word(b: Any, api: Interface, arena: Any) -> Any:
    """The address of the word."""
    return b.gep(arena, [ir.Constant(I64, api.arena_bytes - WORD_BYTES)], inbounds=True, source_etype=I8)


def _magic(api: Interface) -> int:
    """The word of level 0: hardly ever there by chance, and another one for other models and levels."""
    text = "\n".join([api.prefix, api.digest, *(level.name for level in api.levels)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little") << 8


def _evidence(level: Target, base: Target) -> list[Evidence]:
    """Of everything that ``level`` has beyond ``base``."""
    features = level.features - base.features
    return [e for f in level.architecture.features if f.name in features for e in f.evidence]


class _Processor:
    """Code that reads what the processor says of itself, every word once."""

    def __init__(self, module: Any, b: Any) -> None:
        self._module, self._b = module, b
        self._words: dict[tuple[str, tuple[int, ...]], Any] = {}

    def has(self, evidence: Iterable[Evidence]) -> Any:
        """Whether all bits are set, as i1."""
        result = ir.Constant(ir.IntType(1), 1)
        for item in evidence:
            word = self._word(item)
            bits = ir.Constant(word.type, item.bits)
            result = self._b.and_(result, self._b.icmp_unsigned("==", self._b.and_(word, bits), bits))
        return result

    def _word(self, evidence: Evidence) -> Any:
        key = (evidence.source, evidence.place)
        if key not in self._words:
            self._words[key] = _SOURCES[evidence.source](self, *evidence.place)
        return self._words[key]

    def cpuid(self, leaf: int, subleaf: int, register: int) -> Any:
        """A register after CPUID; 0 for leaves beyond the highest, which would show that one's."""
        highest = self._b.extract_value(self._registers(leaf & 0x80000000, 0), 0)
        word = self._b.extract_value(self._registers(leaf, subleaf), register)
        there = self._b.icmp_unsigned(">=", highest, ir.Constant(I32, leaf))
        return self._b.select(there, word, ir.Constant(I32, 0))

    def _registers(self, leaf: int, subleaf: int) -> Any:
        signature = ir.FunctionType(ir.LiteralStructType([I32] * 4), [I32, I32])
        constraints = "={eax},={ebx},={ecx},={edx},{eax},{ecx},~{dirflag},~{fpsr},~{flags}"
        assembly = ir.InlineAsm(signature, "cpuid", constraints, True)
        return self._b.call(assembly, [ir.Constant(I32, leaf), ir.Constant(I32, subleaf)])

    def xcr0(self) -> Any:
        """The lower half of the extended control register 0; 0 where the system keeps no extended state."""
        b, enabled = self._b, self.has([_OSXSAVE])
        start = b.block
        with b.if_then(enabled):
            signature = ir.FunctionType(ir.LiteralStructType([I32] * 2), [I32])
            constraints = "={eax},={edx},{ecx},~{dirflag},~{fpsr},~{flags}"
            read = b.call(ir.InlineAsm(signature, "xgetbv", constraints, True), [ir.Constant(I32, 0)])
            lower, inside = b.extract_value(read, 0), b.block
        word = b.phi(I32)
        word.add_incoming(ir.Constant(I32, 0), start)
        word.add_incoming(lower, inside)
        return word

    def auxv(self, kind: int) -> Any:
        """An entry of the auxiliary vector of Linux; 0 where there is none."""
        name = SYSTEM_FUNCTIONS["auxv"]
        known = self._module.globals.get(name)
        function = known or ir.Function(self._module, ir.FunctionType(I64, [I64]), name)
        return self._b.call(function, [ir.Constant(I64, kind)])


_SOURCES: dict[str, Callable[..., Any]] = {
    "cpuid": _Processor.cpuid,
    "xcr0": _Processor.xcr0,
    "auxv": _Processor.auxv,
}
