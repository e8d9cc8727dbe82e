"""Targets as validated data: architectures, their features, and the named targets made of them.

LLVM ignores unknown feature names and ends the process on unknown x86 CPU names, so nothing reaches LLVM that
is not in these tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qimport.errors import TargetError, unknown_name

MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset"})
"""What every C library has, and what LLVM emits calls to on every architecture."""


@dataclass(frozen=True)
class Evidence:
    """Bits of a word that are all set where a processor and its operating system have a feature.

    ``source`` and ``place`` name the word: "cpuid" with leaf, subleaf and register (0-3: EAX, EBX, ECX, EDX);
    "xcr0", the state that the system keeps; "auxv" with the kind of an entry of Linux's auxiliary vector.
    """

    source: str
    place: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class Feature:
    """One selectable CPU feature: our name, the LLVM feature names it stands for, and what it implies.

    ``evidence`` tells at run-time whether it is there, beside that of what it implies.
    """

    name: str
    llvm: tuple[str, ...]
    implies: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Architecture:
    """An instruction set, or one core of a family whose cores differ in what they have.

    ``triple`` and ``cpu`` are LLVM's; ``base`` are LLVM features that all code uses (+) or avoids (-),
    whatever ``features`` are selected. Objects are ELF files for ``elf_machine``, WebAssembly modules where
    that is None; ``relocation`` is LLVM's model for code that a linker may place anywhere. ``clock`` is the
    intrinsic that reads a counter of constant rate in user mode. ``fuses``: every such processor has a fused
    multiply-add of float32; ``minimum_of_floats``: and the smaller of two floats without a function.
    ``without_vectors`` are LLVM features for kernels of floats where vectors would flush subnormal numbers,
    or where LLVM cannot select all instructions.

    ``helpers`` are the functions beyond :data:`MEMORY_FUNCTIONS` that LLVM may call for what the processor
    lacks. ``stack_bytes`` is the largest stack frame of a function. ``links_objects``: the objects of
    kernels are linked by :mod:`qimport.codegen.elf`; otherwise LLVM makes one object of all modules.
    ``levels`` are the targets that one object may choose from, each with all features of the one before.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[Feature, ...]
    elf_machine: int | None
    base: tuple[str, ...] = ()
    clock: str = ""
    base_vector_bytes: int = 16
    pointer_bytes: int = 8
    float_abi: str = "hard"
    fuses: bool = False
    minimum_of_floats: bool = True
    without_vectors: tuple[str, ...] = ()
    relocation: str = "pic"
    helpers: frozenset[str] = frozenset()
    stack_bytes: int = 64 << 10
    links_objects: bool = True
    levels: tuple[str, ...] = ()

    def feature(self, name: str) -> Feature:
        """Look a feature up by our name; raises :class:`TargetError` with a suggestion."""
        for feature in self.features:
            if feature.name == name:
                return feature
        raise TargetError(unknown_name("feature", name, [feature.name for feature in self.features]))

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """``names`` with everything they imply."""
        found: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.feature(name).implies)
        return frozenset(found)


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


_EAX, _EBX, _ECX, _EDX = range(4)

X86_64 = Architecture(
    "x86-64",
    "x86_64-unknown-linux-gnu",
    "x86-64",
    (
        Feature("sse2", ("sse2",)),
        Feature(
            "sse4.2",
            ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"),
            ("sse2",),
            (
                Evidence("cpuid", (1, 0, _ECX), _bits(0, 9, 13, 19, 20, 23)),
                Evidence("cpuid", (0x80000001, 0, _ECX), _bits(0)),
            ),
        ),
        Feature(
            "avx2",
            ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
            ("sse4.2",),
            (
                Evidence("cpuid", (1, 0, _ECX), _bits(12, 22, 28, 29)),
                Evidence("cpuid", (7, 0, _EBX), _bits(3, 5, 8)),
                Evidence("cpuid", (0x80000001, 0, _ECX), _bits(5)),
                Evidence("xcr0", (), _bits(1, 2)),
            ),
        ),
        Feature(
            "avx512",
            ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
            ("avx2",),
            (
                Evidence("cpuid", (7, 0, _EBX), _bits(16, 17, 28, 30, 31)),
                Evidence("xcr0", (), _bits(5, 6, 7)),
            ),
        ),
        Feature("avxvnni", ("avxvnni",), ("avx2",), (Evidence("cpuid", (7, 1, _EAX), _bits(4)),)),
        Feature("avx512vnni", ("avx512vnni",), ("avx512",), (Evidence("cpuid", (7, 0, _ECX), _bits(11)),)),
        Feature("avx512vbmi", ("avx512vbmi",), ("avx512",), (Evidence("cpuid", (7, 0, _ECX), _bits(1)),)),
        Feature(
            "amx-int8",
            ("amx-tile", "amx-int8"),
            ("avx512vnni",),
            (Evidence("cpuid", (7, 0, _EDX), _bits(24, 25)), Evidence("xcr0", (), _bits(17, 18))),
        ),
    ),
    elf_machine=62,
    clock="llvm.readcyclecounter",
    levels=("x86-64", "x86-64-v3", "x86-64-vnni", "x86-64-amx"),
)

ARM64 = Architecture(
    "arm64",
    "aarch64-unknown-linux-gnu",
    "generic",
    (
        Feature("neon", ("neon",)),
        # AT_HWCAP and AT_HWCAP2, with HWCAP_ASIMDDP and HWCAP2_I8MM
        Feature("dotprod", ("dotprod",), ("neon",), (Evidence("auxv", (16,), _bits(20)),)),
        Feature("i8mm", ("i8mm",), ("dotprod",), (Evidence("auxv", (26,), _bits(13)),)),
    ),
    elf_machine=183,
    # x18 belongs to the platform: Android, Windows and systems of Apple keep things of their own there.
    base=("+reserve-x18",),
    clock="llvm.readsteadycounter",
    fuses=True,
    levels=("arm64", "arm64-dotprod", "arm64-i8mm"),
)


def _aeabi(names: str) -> frozenset[str]:
    """Helpers of the run-time ABI for the Arm architecture, which every toolchain for it has."""
    return frozenset(f"__aeabi_{name}" for name in names.split())


_ARM_INTEGERS = _aeabi("idiv uidiv idivmod uidivmod ldivmod uldivmod")
_ARM_WIDE_FLOATS = _aeabi("l2f ul2f f2lz f2ulz l2d ul2d d2lz d2ulz")
_ARM_DOUBLES = _aeabi(
    "dadd dsub dmul ddiv dcmpeq dcmplt dcmple dcmpge dcmpgt dcmpun i2d ui2d d2iz d2uiz f2d d2f"
)
_ARM_MEMORY = _aeabi(
    "memcpy memcpy4 memcpy8 memmove memmove4 memmove8 memset memset4 memset8 memclr memclr4 memclr8"
)

ARMV7 = Architecture(
    "armv7",
    "armv7-unknown-linux-gnueabihf",
    "generic",
    (),
    elf_machine=40,
    base=("+neon",),
    pointer_bytes=4,
    minimum_of_floats=False,
    without_vectors=("-neon",),
    helpers=_ARM_INTEGERS | _ARM_WIDE_FLOATS,
    links_objects=False,
)


def _cortex_m(
    core: str,
    triple: str,
    base: tuple[str, ...] = (),
    features: tuple[Feature, ...] = (),
    minimum_of_floats: bool = True,
    without_vectors: tuple[str, ...] = (),
) -> Architecture:
    """A microcontroller with a unit for float32; float64 is computed by helpers, which are exact, too."""
    return Architecture(
        core,
        triple,
        core,
        features,
        elf_machine=40,
        base=base,
        pointer_bytes=4,
        fuses=True,
        minimum_of_floats=minimum_of_floats,
        without_vectors=without_vectors,
        helpers=_ARM_INTEGERS | _ARM_WIDE_FLOATS | _ARM_DOUBLES | _ARM_MEMORY | {"sqrt"},
        stack_bytes=4 << 10,
        links_objects=False,
    )


_DOUBLES = Feature("fp64", ("fp64",))

CORTEX_M4 = _cortex_m("cortex-m4", "thumbv7em-unknown-none-eabihf", minimum_of_floats=False)
CORTEX_M7 = _cortex_m("cortex-m7", "thumbv7em-unknown-none-eabihf", ("-fp64",), (_DOUBLES,))
CORTEX_M33 = _cortex_m("cortex-m33", "thumbv8m.main-unknown-none-eabihf")
CORTEX_M55 = _cortex_m(
    "cortex-m55",
    "thumbv8.1m.main-unknown-none-eabihf",
    # Vectors of floats would flush subnormal numbers.
    ("-mve.fp", "-fp64"),
    (_DOUBLES, Feature("mve", ("mve",))),
    without_vectors=("-mve",),
)

RISCV64 = Architecture(
    "riscv64",
    "riscv64-unknown-linux-gnu",
    "generic-rv64",
    (),
    elf_machine=243,
    base=("+m", "+a", "+f", "+d", "+c"),
    fuses=True,
)

WASM32 = Architecture(
    "wasm32",
    "wasm32-unknown-unknown",
    "generic",
    (),
    elf_machine=None,
    base=("+simd128", "+bulk-memory", "+bulk-memory-opt", "+nontrapping-fptoint", "+sign-ext"),
    pointer_bytes=4,
    relocation="static",
    minimum_of_floats=False,
    links_objects=False,
)

ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (X86_64, ARM64, ARMV7, CORTEX_M4, CORTEX_M7, CORTEX_M33, CORTEX_M55, RISCV64, WASM32)
}
"""Every architecture by name."""


@dataclass(frozen=True)
class Target:
    """What code is generated for. ``features`` is closed under implication.

    Make one with :func:`target_named`; ``host`` is resolved by :mod:`qimport.codegen.host`.
    """

    name: str
    architecture: Architecture
    features: frozenset[str]

    def has(self, *names: str) -> bool:
        """Whether all these features are there."""
        return self.features.issuperset(names)

    @property
    def triple(self) -> str:
        """LLVM target triple."""
        return self.architecture.triple

    @property
    def cpu(self) -> str:
        """LLVM CPU name: always the architecture's baseline, features are listed one by one."""
        return self.architecture.cpu

    @property
    def feature_string(self) -> str:
        """LLVM feature string, sorted: the whole truth about the code, and a part of cache keys."""
        names = sorted(llvm for f in self.architecture.features if f.name in self.features for llvm in f.llvm)
        tuning = ["-prefer-256-bit"] if "avx512" in self.features else []
        return ",".join([*self.architecture.base, *(f"+{name}" for name in names), *tuning])

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest integer vector register that pays."""
        wide = {"avx512": 64, "avx2": 32}
        return max(
            (wide[name] for name in self.features & wide.keys()), default=self.architecture.base_vector_bytes
        )

    @property
    def lanes(self) -> int:
        """Lanes of 32 bits in such a register."""
        return self.vector_bytes // 4

    @property
    def pointer_bytes(self) -> int:
        """Bytes of an address."""
        return self.architecture.pointer_bytes

    @property
    def fuses(self) -> bool:
        """Whether there is an instruction for the fused multiply-add of float32."""
        return self.architecture.fuses or self.has("avx2")

    @property
    def allowed_undefined(self) -> frozenset[str]:
        """Symbols that an object may leave to the linker."""
        return MEMORY_FUNCTIONS | self.architecture.helpers

    @property
    def needs_tile_permission(self) -> bool:
        """Whether a process must ask Linux for the AMX tile state before running this code."""
        return "amx-int8" in self.features


_NAMED: dict[str, tuple[Architecture, tuple[str, ...], str]] = {
    "x86-64": (X86_64, ("sse2",), "baseline: SSE2, every 64-bit x86"),
    "x86-64-v2": (X86_64, ("sse4.2",), "SSE4.2, about 2009 on"),
    "x86-64-v3": (X86_64, ("avx2",), "AVX2, about 2013 on"),
    "x86-64-v4": (X86_64, ("avx512",), "AVX-512 F, BW, CD, DQ, VL"),
    "x86-64-avxvnni": (X86_64, ("avxvnni",), "AVX2 with 256-bit VNNI dot products"),
    "x86-64-vnni": (X86_64, ("avx512vnni",), "AVX-512 with VNNI dot products"),
    "x86-64-amx": (X86_64, ("amx-int8", "avx512vbmi"), "AVX-512 VNNI with AMX int8 tiles"),
    "arm64": (ARM64, ("neon",), "ARMv8.0 with NEON"),
    "arm64-dotprod": (ARM64, ("dotprod",), "NEON with dot products (ARMv8.2)"),
    "arm64-i8mm": (ARM64, ("i8mm",), "NEON with 8-bit matrix products (ARMv8.6)"),
    "armv7": (ARMV7, (), "32-bit ARMv7-A with NEON"),
    "cortex-m4": (CORTEX_M4, (), "Cortex-M4F: DSP instructions, float32"),
    "cortex-m7": (CORTEX_M7, (), "Cortex-M7: DSP instructions, float32"),
    "cortex-m33": (CORTEX_M33, (), "Cortex-M33: DSP instructions, float32"),
    "cortex-m55": (CORTEX_M55, ("mve",), "Cortex-M55: vectors of integers (Helium), float32"),
    "riscv64": (RISCV64, (), "64-bit RISC-V without vectors (RV64GC)"),
    "wasm32": (WASM32, (), "WebAssembly with vectors of 128 bits"),
}


def target_descriptions() -> dict[str, str]:
    """Every named target with one line about it, ``host`` excluded."""
    return {name: text for name, (_, _, text) in _NAMED.items()}


def target_named(name: str) -> Target:
    """The target called ``name``, optionally with ``+feature`` suffixes (``x86-64-v3+avxvnni``).

    Raises:
        TargetError: for an unknown name or feature, with the nearest known one.
    """
    base, *extra = name.split("+")
    if base == "host" and extra:
        raise TargetError("host already has every feature of this machine; leave out what follows it")
    if base not in _NAMED:
        raise TargetError(unknown_name("target", base, ["host", *_NAMED]))
    architecture, features, _ = _NAMED[base]
    return Target(name, architecture, architecture.closure([*features, *extra]))
