"""Other processors on this machine: a table of targets, and how programs for them are linked and run.

    platform = PLATFORMS["cortex-m4"]
    platform.skip_if_missing()
    program = platform.link([main_c, objects], folder / "program")
    platform.run(program, "in.raw", "out.raw")

A program is C with a C library, ``main(argc, argv)``, files and an exit code on every platform, also on the
boards without operating system, whose library hands files to the emulator (semihosting). It runs in its own
folder; give it names in there, as a board knows only short ones without spaces.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from qimport.codegen.host import resolve_target
from qimport.codegen.target import Target
from qimport.toolchain import Tool, find_compiler, missing_compiler

SECONDS = 300
"""How long a program may run."""

STACK_BYTES = 32 << 10
"""What a board gives to its program, its C library included."""

VECTORS = """\
extern char __stack[];
extern void _start(void);
struct vectors {
  char *stack;
  void (*reset)(void);
};
extern const struct vectors boot;
__attribute__((section(".boot"))) const struct vectors boot = {__stack, _start};
"""
"""What a Cortex-M reads when it starts: its stack pointer and where to begin."""


@dataclass(frozen=True)
class Platform:
    """A processor under an emulator that runs programs of Linux; without ``emulator`` it is this machine.

    ``core`` is the emulator's name of a processor that has what the target promises and nothing newer.
    """

    target: str
    emulator: str = ""
    core: str = ""

    @property
    def compiler(self) -> Tool | None:
        """What builds programs for it, None where nothing on this machine does."""
        return find_compiler(resolve_target(self.target))

    def missing(self) -> str | None:
        """What this machine lacks, None if nothing."""
        if self.compiler is None:
            return missing_compiler(resolve_target(self.target))
        if self.emulator and shutil.which(self.emulator) is None:
            return f"{self.emulator} is not installed"
        return None

    def skip_if_missing(self) -> None:
        """Skip the calling test where something is missing."""
        if reason := self.missing():
            pytest.skip(reason)

    @property
    def link_options(self) -> tuple[str, ...]:
        """Options that make programs of this platform."""
        return ("-static",) if self.emulator else ()

    def link(self, files: Sequence[Path], program: Path, options: Sequence[str] = ("-O1",)) -> Path:
        """Compile C files and objects to ``program``, without a word from the compiler."""
        compiler = self.compiler
        assert compiler is not None, "call skip_if_missing first"
        command = [*compiler.command, *options, "-o", program, *files, *self.link_options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, f"{compiler.name}: {done.stdout}{done.stderr}"
        return program

    def command(self, program: Path, *arguments: str) -> list[str]:
        """The command that runs it."""
        emulator = [self.emulator, "-cpu", self.core] if self.emulator else []
        return [*emulator, str(program), *arguments]

    def run(self, program: Path, *arguments: str) -> str:
        """The output of a program that must succeed."""
        command = self.command(program, *arguments)
        done = subprocess.run(
            command, cwd=program.parent, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, f"exit code {done.returncode} on {self.core}: {done.stdout}{done.stderr}"
        return done.stdout


@dataclass(frozen=True)
class Board(Platform):
    """A microcontroller without operating system: all of the program lies in one memory of ``size`` bytes.

    ``vectors`` is the address of the two words that the core starts with.
    """

    board: str = ""
    vectors: int = 0
    memory: int = 0
    size: int = 16 << 20

    def missing(self) -> str | None:
        """What this machine lacks, None if nothing."""
        return super().missing() or _missing_library(self.compiler)

    @property
    def link_options(self) -> tuple[str, ...]:
        """Code and constants get the first half of the memory; picolibc has names for all of this."""
        half = self.size // 2
        places = {
            "__flash": self.memory,
            "__flash_size": half,
            "__ram": self.memory + half,
            "__ram_size": half,
            "__stack_size": STACK_BYTES,
        }
        symbols = ",".join(f"--defsym={name}={value:#x}" for name, value in places.items())
        # The library does not say that it needs no executable stack.
        boot = f"-z,noexecstack,--undefined=boot,--section-start=.boot={self.vectors:#x}"
        return ("--specs=picolibc.specs", "--oslib=semihost", "--crt0=semihost", f"-Wl,{boot},{symbols}")

    def link(self, files: Sequence[Path], program: Path, options: Sequence[str] = ("-O1",)) -> Path:
        """As :meth:`Platform.link`, with the words that the core starts with."""
        vectors = program.with_name("vectors.c")
        vectors.write_text(VECTORS)
        return super().link([*files, vectors], program, options)

    def command(self, program: Path, *arguments: str) -> list[str]:
        """The command that runs it; the emulator ends with the program's exit code."""
        named = "".join(f",arg={argument}" for argument in arguments)
        quiet = [word for device in ("display", "monitor", "serial") for word in (f"-{device}", "none")]
        files = ["-semihosting-config", f"enable=on,target=native{named}"]
        return [self.emulator, "-machine", self.board, *quiet, *files, "-kernel", str(program)]


@functools.cache
def _missing_library(compiler: Tool | None) -> str | None:
    """Whether a compiler for boards finds the C library that the programs need."""
    assert compiler is not None
    command = [*compiler.command, "-print-file-name=picolibc.specs"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if "/" in found.stdout else f"{compiler.name} has no picolibc"


_MPS = "qemu-system-arm"

HOST = Platform("host")

PLATFORMS: dict[str, Platform] = {
    platform.target: platform
    for platform in (
        Platform("arm64", "qemu-aarch64", "cortex-a53"),
        Platform("arm64-dotprod", "qemu-aarch64", "cortex-a76"),
        Platform("arm64-i8mm", "qemu-aarch64", "max"),
        Platform("armv7", "qemu-arm", "cortex-a8"),
        Platform("riscv64", "qemu-riscv64", "sifive-u54"),
        Board("cortex-m4", _MPS, "cortex-m4", "mps2-an386", memory=0x21000000),
        Board("cortex-m7", _MPS, "cortex-m7", "mps2-an500", memory=0x60000000),
        Board("cortex-m33", _MPS, "cortex-m33", "mps2-an505", vectors=0x10000000, memory=0x80000000),
        Board("cortex-m55", _MPS, "cortex-m55", "mps3-an547", memory=0x60000000, size=512 << 20),
    )
}
"""Everything that is emulated, by the name of the target."""


def platform_for(target: Target) -> Platform:
    """Where code for a target runs: the first of :data:`PLATFORMS` that has all features, or this machine."""
    for platform in PLATFORMS.values():
        known = resolve_target(platform.target)
        if known.architecture is target.architecture and known.has(*target.features):
            return platform
    return HOST
