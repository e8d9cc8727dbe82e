"""Targets as validated data: architectures, their features, and the named targets made of them.

LLVM ignores unknown feature names and ends the process on unknown x86 CPU names, so nothing reaches LLVM that
is not in these tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qimport.errors import TargetError, unknown_name


@dataclass(frozen=True)
class Feature:
    """One selectable CPU feature: our name, the LLVM feature names it stands for, and what it implies."""

    name: str
    llvm: tuple[str, ...]
    implies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Architecture:
    """An instruction set: LLVM triple, baseline CPU name, selectable features, ELF machine number.

    ``clock`` is the intrinsic that reads a counter of constant rate in user mode.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[Feature, ...]
    elf_machine: int
    clock: str
    base_vector_bytes: int = 16

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


X86_64 = Architecture(
    "x86-64",
    "x86_64-unknown-linux-gnu",
    "x86-64",
    (
        Feature("sse2", ("sse2",)),
        Feature("sse4.2", ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"), ("sse2",)),
        Feature("avx2", ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), ("sse4.2",)),
        Feature("avx512", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), ("avx2",)),
        Feature("avxvnni", ("avxvnni",), ("avx2",)),
        Feature("avx512vnni", ("avx512vnni",), ("avx512",)),
        Feature("avx512vbmi", ("avx512vbmi",), ("avx512",)),
        Feature("amx-int8", ("amx-tile", "amx-int8"), ("avx512vnni",)),
    ),
    elf_machine=62,
    clock="llvm.readcyclecounter",
)

ARM64 = Architecture(
    "arm64",
    "aarch64-unknown-linux-gnu",
    "generic",
    (
        Feature("neon", ("neon",)),
        Feature("dotprod", ("dotprod",), ("neon",)),
        Feature("i8mm", ("i8mm",), ("dotprod",)),
    ),
    elf_machine=183,
    clock="llvm.readsteadycounter",
)


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
        return ",".join([f"+{name}" for name in names] + tuning)

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
