"""C compilers and linkers for targets: a table of what to look for, and what was found on this machine.

Nothing in qimport needs one but shared libraries; the tests link and run their programs with them.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from qimport.codegen.target import Target
from qimport.errors import TargetError

Language = Literal["c", "c++"]

OVERRIDE = "QIMPORT_CC"
"""Environment variable: the C compiler to take, with its options, whatever the target."""

SECONDS = 300
"""How long a compiler may take; the first call of zig builds its libraries."""


@dataclass(frozen=True)
class Platform:
    """Targets whose triple matches ``pattern``, and who builds C programs for them.

    ``gcc`` are the prefixes of cross compilers, in order of preference; ``options`` tell them and clang about
    the target, ``zig`` are those of ``zig cc``; ``{cpu}`` in them is LLVM's name of the processor, with
    underscores for zig, ``lld`` is LLVM's linker. ``hosted``: there is an operating system with a C library,
    and so shared libraries.
    """

    pattern: str
    gcc: tuple[str, ...]
    options: tuple[str, ...]
    zig: tuple[str, ...]
    hosted: bool = True
    lld: str = "ld.lld"


_SOFT = ("-mcpu={cpu}", "-mthumb", "-mfloat-abi=softfp")
_HARD = ("-mcpu={cpu}", "-mthumb", "-mfloat-abi=hard")
_BARE_ARM = ("arm-none-eabi", "arm-linux-gnueabihf")
"""The second one is for Linux, but compiles and links what needs no C library."""

PLATFORMS: tuple[Platform, ...] = (
    Platform("x86_64-*-linux-gnu", ("x86_64-linux-gnu",), (), ("-target", "x86_64-linux-gnu")),
    Platform("aarch64-*-linux-gnu", ("aarch64-linux-gnu",), (), ("-target", "aarch64-linux-gnu")),
    Platform("riscv64-*-linux-gnu", ("riscv64-linux-gnu",), (), ("-target", "riscv64-linux-gnu")),
    Platform(
        "arm*-linux-gnueabihf",
        ("arm-linux-gnueabihf",),
        (),
        ("-target", "arm-linux-gnueabihf", "-mcpu=generic+v7a"),
    ),
    Platform(
        "thumb*-eabihf",
        _BARE_ARM,
        _HARD,
        ("-target", "thumb-freestanding-eabihf", "-mcpu={cpu}"),
        hosted=False,
    ),
    Platform(
        "thumb*-eabi",
        _BARE_ARM,
        _SOFT,
        ("-target", "thumb-freestanding-eabi", "-mcpu={cpu}"),
        hosted=False,
    ),
    Platform("wasm32-*", (), (), ("-target", "wasm32-wasi"), hosted=False, lld="wasm-ld"),
)
"""In order: the first that matches counts."""

_NATIVE_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Names of this machine's processor that are not the first part of a triple."""


_COMPLAINT = re.compile("error|undefined", re.IGNORECASE)
"""What marks the line of a tool's output that tells the reason of a failure."""


@dataclass(frozen=True)
class Tool:
    """A program with the options that make it work for one target.

    ``name`` is for readers. ``is_driver``: it is a compiler, which hands options to its linker with ``-Wl,``.
    """

    name: str
    command: tuple[str, ...]
    is_driver: bool = True

    def run(self, *arguments: str | Path, directory: Path | None = None) -> str:
        """Standard output of the tool.

        Raises:
            TargetError: it fails; with the first thing it says.
        """
        command = [*self.command, *map(str, arguments)]
        try:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TargetError(f"{self.name} does not work: {error}") from error
        if done.returncode:
            said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            # GCC's driver only repeats that its linker has failed.
            said.sort(key=lambda line: (line.startswith("collect2:"), not _COMPLAINT.search(line)))
            raise TargetError(f"{self.name} failed: {[*said, f'exit code {done.returncode}'][0]}")
        return done.stdout

    def linker_option(self, *words: str) -> tuple[str, ...]:
        """An option of the linker, as this tool takes it."""
        return (",".join(("-Wl", *words)),) if self.is_driver else words


def platform_of(target: Target) -> Platform:
    """The row of :data:`PLATFORMS`.

    Raises:
        TargetError: there is none.
    """
    for row in PLATFORMS:
        if fnmatchcase(target.triple, row.pattern):
            return row
    raise TargetError(f"no C compiler is known for {target.name} ({target.triple})")


def is_native(target: Target) -> bool:
    """Whether the compilers of this machine build for it."""
    machine = platform.machine().lower()
    wanted = f"{_NATIVE_MACHINES.get(machine, machine)}-unknown-{sys.platform}"
    return target.triple.startswith(wanted)


def find_compiler(target: Target, language: Language = "c") -> Tool | None:
    """The first C or C++ compiler for a target that is on this machine, None where there is none."""
    if override := shlex.split(os.environ.get(OVERRIDE, "")):
        return Tool(override[0], tuple(override))
    return _first_compiler(target, language)


@functools.cache
def _first_compiler(target: Target, language: Language) -> Tool | None:
    return next(_compilers(target, language), None)


def require_compiler(target: Target, language: Language = "c") -> Tool:
    """As :func:`find_compiler`.

    Raises:
        TargetError: there is none.
    """
    found = find_compiler(target, language)
    if found is None:
        raise TargetError(missing_compiler(target))
    return found


def find_linker(target: Target) -> Tool | None:
    """What links shared libraries: a compiler, or else a linker alone."""
    return find_compiler(target) or next(_linkers(target), None)


def require_linker(target: Target) -> Tool:
    """As :func:`find_linker`.

    Raises:
        TargetError: there is none, or programs of the target know no shared libraries.
    """
    if not platform_of(target).hosted:
        raise TargetError(f"{target.name} knows no shared libraries; take an object or a static library")
    found = find_linker(target)
    if found is None:
        raise TargetError(missing_compiler(target))
    return found


def missing_compiler(target: Target) -> str:
    """A sentence: what was looked for, and how to get one."""
    row = platform_of(target)
    names = [f"{prefix}-gcc" for prefix in row.gcc]
    native = ["cc", "gcc"] if is_native(target) else []
    looked = ", ".join([*native, *names, "clang", row.lld])
    return (
        f"no compiler or linker for {target.name} is installed (looked for {looked} and zig); "
        f"install one, `pip install 'qimport[cross]'`, or name one in {OVERRIDE}"
    )


def _compilers(target: Target, language: Language) -> Iterator[Tool]:
    """What is installed, the best first."""
    row = platform_of(target)
    options = tuple(option.format(cpu=target.cpu) for option in row.options)
    plus = language == "c++"
    if is_native(target):
        for name in ("c++", "g++", "clang++") if plus else ("cc", "gcc", "clang"):
            if shutil.which(name):
                yield Tool(name, (name, *options))
    for prefix in row.gcc:
        name = f"{prefix}-{'g++' if plus else 'gcc'}"
        if shutil.which(name):
            yield Tool(name, (name, *options))
    if importlib.util.find_spec("ziglang"):
        zig = tuple(option.format(cpu=target.cpu.replace("-", "_")) for option in row.zig)
        mode = "c++" if plus else "cc"
        yield Tool(f"zig {mode}", (sys.executable, "-m", "ziglang", mode, *zig))
    name = "clang++" if plus else "clang"
    if shutil.which(name) and not is_native(target):
        clang = Tool(name, (name, f"--target={target.triple}", *options))
        if not row.hosted or _has_c_library(clang):
            yield clang


def _has_c_library(compiler: Tool) -> bool:
    """Whether a clang that can build for any processor has the headers and libraries for this one, too."""
    try:
        return bool(compiler.run("--print-file-name=libc.so").strip().startswith("/"))
    except TargetError:
        return False


def _linkers(target: Target) -> Iterator[Tool]:
    """Linkers without a compiler around them."""
    row = platform_of(target)
    names = [row.lld, *(f"{prefix}-ld" for prefix in row.gcc)]
    for name in [*names, *(["ld"] if is_native(target) else [])]:
        if shutil.which(name):
            yield Tool(name, (name,), is_driver=False)
