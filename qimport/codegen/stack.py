"""How much stack generated code takes: frames as its assembly shows them, added up along calls.

LLVM decides late how large a frame is, and tells it nowhere but in the instructions that move the stack
pointer. Those are few, and reading them gives a bound: whatever moves the pointer in a way that is not
understood is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from qimport.errors import CompilerBug


@dataclass(frozen=True)
class Move:
    """``to`` becomes ``source`` plus ``change``, then the next lower multiple of ``alignment``.

    ``change`` is a number of bytes or a register that holds one, with a minus sign where it is subtracted.
    """

    to: str
    source: str
    change: int | str = 0
    alignment: int = 1


@dataclass(frozen=True)
class Constant:
    """``register`` becomes ``value``, added to what it holds if ``more``."""

    register: str
    value: int
    more: bool = False


@dataclass(frozen=True)
class End:
    """Control leaves the function. What follows in the text is reached with the whole frame in place."""


Meaning = Callable[[re.Match[str]], Move | Constant | End]


@dataclass(frozen=True)
class Notation:
    """How assembly moves the stack pointer: patterns of whole instructions and their ``meanings``.

    ``writes`` matches every instruction that writes the pointer; ``restores`` those that set it back from the
    frame pointer, in front of an end, or on a condition. A call itself pushes ``return_address`` bytes.
    """

    pointer: str
    meanings: tuple[tuple[str, Meaning], ...]
    writes: str
    restores: str = r"(?!)"
    return_address: int = 0

    @cached_property
    def events(self) -> re.Pattern[str]:
        """Names of functions and all instructions of interest; the group that matched tells which."""
        choices = [rf"\t({pattern})[ \t]*(?:[#@;].*)?$" for pattern in (self.restores, *self._patterns)]
        return re.compile("|".join([r"^([A-Za-z_]\w*):", *choices, rf"\t({self.writes})"]), re.MULTILINE)

    @property
    def _patterns(self) -> list[str]:
        return [re.sub(r"\((?!\?)", "(?:", pattern) for pattern, _ in self.meanings]


def _registers(text: str) -> int:
    """How many registers are in a list."""
    return text.count(",") + 1


def _shifted(amount: str, shift: str | None) -> int:
    return int(amount) << int(shift or 0)


X86_64 = Notation(
    "%rsp",
    (
        (r"push[qw]?\t.*", lambda m: Move("%rsp", "%rsp", -8)),
        (r"pop[qw]?\t.*", lambda m: Move("%rsp", "%rsp", 8)),
        (r"subq\t\$(-?\d+), %rsp", lambda m: Move("%rsp", "%rsp", -int(m[1]))),
        (r"addq\t\$(-?\d+), %rsp", lambda m: Move("%rsp", "%rsp", int(m[1]))),
        (r"andq\t\$-(\d+), %rsp", lambda m: Move("%rsp", "%rsp", 0, int(m[1]))),
        (r"ret[qw]?|jmp\t[A-Za-z_].*", lambda m: End()),
    ),
    writes=r"(?:[a-z]+\t(?:.*, )?%rsp$|(?:enter|leave)\b.*)",
    restores=r"leaq\t-?\d*\(%rbp\), %rsp|movq\t%rbp, %rsp",
    return_address=8,
)

ARM64 = Notation(
    "sp",
    (
        (
            r"sub\t(sp|x\d+), (sp|x\d+), #(\d+)(?:, lsl #(\d+))?",
            lambda m: Move(m[1], m[2], -_shifted(m[3], m[4])),
        ),
        (r"add\t(sp), (sp), #(\d+)(?:, lsl #(\d+))?", lambda m: Move(m[1], m[2], _shifted(m[3], m[4]))),
        (r"st[rp]\t.*\[sp, #-(\d+)\]!", lambda m: Move("sp", "sp", -int(m[1]))),
        (r"ld[rp]\t.*\[sp\], #(\d+)", lambda m: Move("sp", "sp", int(m[1]))),
        (r"and\tsp, (x\d+), #0x(f[0-9a-f]{15})", lambda m: Move("sp", m[1], 0, 2**64 - int(m[2], 16))),
        (r"ret|b\t[A-Za-z_].*", lambda m: End()),
    ),
    writes=r"(?:[a-z]+\tsp, .*|.*\[sp, .*\]!|.*\[sp\], .*)",
    restores=r"(?:sub|add|mov)\tsp, x29.*",
)

ARM32 = Notation(
    "sp",
    (
        (r"push(?:\.w)?\t\{(.*)\}", lambda m: Move("sp", "sp", -4 * _registers(m[1]))),
        (r"vpush\t\{(.*)\}", lambda m: Move("sp", "sp", -8 * _registers(m[1]))),
        (r"str\t\w+, \[sp, #-(\d+)\]!", lambda m: Move("sp", "sp", -int(m[1]))),
        (r"sub(?:\.w|w)?\tsp, (?:sp, )?#(\d+)", lambda m: Move("sp", "sp", -int(m[1]))),
        (r"add(?:\.w|w)?\tsp, (?:sp, )?#(\d+)", lambda m: Move("sp", "sp", int(m[1]))),
        (r"mov\t(r\d+|sp), (sp|r4)", lambda m: Move(m[1], m[2])),
        (r"bfc\t(sp|r4), #0, #(\d+)", lambda m: Move(m[1], m[1], 0, 1 << int(m[2]))),
        (r"vpop\t\{(.*)\}", lambda m: Move("sp", "sp", 8 * _registers(m[1]))),
        (r"bx\tlr|(?:pop|ldm)(?:\.w)?\t.*pc\}|ldr\tpc, \[sp\], #\d+|b(?:\.w)?\t[A-Za-z_].*", lambda m: End()),
        (r"pop(?:\.w)?\t\{(.*)\}", lambda m: Move("sp", "sp", 4 * _registers(m[1]))),
        (r"ldr\t\w+, \[sp\], #(\d+)", lambda m: Move("sp", "sp", int(m[1]))),
    ),
    writes=r"(?:(?!v?stm|v?ldm|cm[pn]|tst)[a-z.]+\tsp, .*|.*\[sp, .*\]!|.*\[sp\], .*|.*\tsp!.*)",
    restores=r"(?:sub|add|mov)(?:\.w|w)?\t(?:sp|r4), (?:r7|r11).*|add[a-z]{2}\tsp, .*",
)

RISCV64 = Notation(
    "sp",
    (
        (r"addi\tsp, sp, (-?\d+)", lambda m: Move("sp", "sp", int(m[1]))),
        (r"(?:lui|c\.lui)\t(\w+), (\d+)", lambda m: Constant(m[1], int(m[2]) << 12)),
        (r"li\t(\w+), (-?\d+)", lambda m: Constant(m[1], int(m[2]))),
        (r"addiw?\t(\w+), \w+, (-?\d+)", lambda m: Constant(m[1], int(m[2]), more=True)),
        (r"sub\tsp, sp, (\w+)", lambda m: Move("sp", "sp", f"-{m[1]}")),
        (r"add\tsp, sp, (\w+)", lambda m: Move("sp", "sp", m[1])),
        (r"andi\tsp, sp, -(\d+)", lambda m: Move("sp", "sp", 0, int(m[1]))),
        (r"ret|tail\t.*|j\t[A-Za-z_].*", lambda m: End()),
    ),
    writes=r"[a-z.]+\tsp, .*",
    restores=r"addi\tsp, s0, .*",
)

WASM32 = Notation(
    "__stack_pointer",
    (
        (
            r"global\.get\t__stack_pointer(?:\n\tlocal\.\w+\t\d+)*\n\ti32\.const\t(\d+)\n\ti32\.sub ?"
            r"(?:\n\ti32\.const\t-(\d+)\n\ti32\.and ?)?"
            r"(?:\n\tlocal\.tee\t\d+\n\tglobal\.set\t__stack_pointer)?",
            lambda m: Move("__stack_pointer", "__stack_pointer", -int(m[1]), int(m[2] or 1)),
        ),
    ),
    writes=r"global\.set\t__stack_pointer",
    restores=r"(?:local\.get\t\d+|i32\.add ?)\n\tglobal\.set\t__stack_pointer",
)
"""Only what lies in linear memory; what a virtual machine keeps elsewhere is its own affair."""

NOTATIONS: dict[str, Notation] = {
    "x86_64": X86_64,
    "aarch64": ARM64,
    "armv7": ARM32,
    "thumb": ARM32,
    "riscv64": RISCV64,
    "wasm32": WASM32,
}
"""By what the target triple begins with."""


_NAME = re.compile(r"[A-Za-z]\w*_\w+")
"""Every function of ours has an underscore in its name, few mnemonics and no registers have one."""


_LAST_LINE = re.compile(r"^\t(?:\.size\t|end_function)", re.MULTILINE)


@dataclass(frozen=True)
class Frame:
    """What a function takes of the stack, its return address included, and the functions that it names."""

    nbytes: int
    names: frozenset[str]


@dataclass(frozen=True)
class Stack:
    """The most that a call takes, the chain of functions that takes it, and the largest frame of all."""

    nbytes: int
    chain: tuple[str, ...]
    largest: int


def frames(assembly: str, triple: str) -> dict[str, Frame]:
    """The frame of every function in assembly that LLVM wrote for ``triple``.

    Raises:
        CompilerBug: an instruction moves the stack pointer in an unknown way.
    """
    reader = _Reader(notation_of(triple))
    for match in reader.notation.events.finditer(assembly):
        reader.take(match)
    return {
        name: Frame(bound.deepest, _names(assembly, bound.start) - {name})
        for name, bound in reader.found.items()
    }


def _names(assembly: str, start: int) -> frozenset[str]:
    """Names in the function at ``start``; directives behind its end speak of the next one."""
    last = _LAST_LINE.search(assembly, start)
    return frozenset(_NAME.findall(assembly, start, last.start() if last else len(assembly)))


def notation_of(triple: str) -> Notation:
    """The notation for a target triple."""
    for begin, notation in NOTATIONS.items():
        if triple.startswith(begin):
            return notation
    raise CompilerBug(f"no notation for the stack pointer of {triple}")


def deepest(functions: Mapping[str, Frame], entry: str) -> Stack:
    """What a call of ``entry`` takes, if every function calls all that it names.

    Functions that are not in ``functions`` (memcpy and its like) do not count.

    Raises:
        CompilerBug: the functions call each other in a circle.
    """
    known: dict[str, tuple[int, tuple[str, ...]]] = {}

    def depth(name: str, above: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        if name in above:
            raise CompilerBug(f"{name} calls itself")
        if name not in known:
            called = sorted(functions[name].names & functions.keys())
            below = max((depth(other, (*above, name)) for other in called), default=(0, ()))
            known[name] = (functions[name].nbytes + below[0], (name, *below[1]))
        return known[name]

    nbytes, chain = depth(entry, ())
    return Stack(nbytes, chain, max(frame.nbytes for frame in functions.values()))


@dataclass
class _Bound:
    """A function at ``start`` of the text: how deep its registers point below its caller's stack."""

    start: int
    depths: dict[str, int]
    constants: dict[str, int] = field(default_factory=dict)
    deepest: int = 0


@dataclass
class _Reader:
    """Follows the stack pointer through the text."""

    notation: Notation
    found: dict[str, _Bound] = field(default_factory=dict)

    def take(self, match: re.Match[str]) -> None:
        """The next function or instruction."""
        number, pointer = match.lastindex or 0, self.notation.pointer
        if number == 1:
            address = self.notation.return_address
            self.bound = self.found[match[1]] = _Bound(match.start(), {pointer: address}, {}, address)
        elif number > 2 + len(self.notation.meanings):
            raise CompilerBug(f"cannot follow the stack pointer through {match[0].strip()!r}")
        elif number > 2:
            pattern, meaning = self.notation.meanings[number - 3]
            inner = re.match(pattern, match[number])
            assert inner is not None
            self._apply(meaning(inner))

    def _apply(self, step: Move | Constant | End) -> None:
        bound, pointer = self.bound, self.notation.pointer
        if isinstance(step, End):
            bound.depths[pointer] = bound.deepest
        elif isinstance(step, Constant):
            bound.constants[step.register] = step.value + step.more * bound.constants.get(step.register, 0)
        elif step.source in bound.depths:
            depth = bound.depths[step.source] - self._amount(step.change) + step.alignment - 1
            bound.depths[step.to] = depth
            if step.to == pointer:
                bound.deepest = max(bound.deepest, depth)

    def _amount(self, change: int | str) -> int:
        if isinstance(change, int):
            return change
        constant = self.bound.constants.get(change.lstrip("-"))
        if constant is None:
            raise CompilerBug(f"the stack pointer moves by an unknown number of bytes ({change})")
        return -constant if change.startswith("-") else constant
