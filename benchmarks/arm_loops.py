"""The hottest loops of AArch64 code, found by counting, and how many cycles ``llvm-mca`` gives them.

The models of cores in ``llvm-mca`` take every load from the first-level cache and predict every branch.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common import markdown, networks
from emulation import CORES, NAME, OBJDUMP, Counted, count_model, emulator_version

import qimport
from qimport.oracle import random_inputs

SHOWN = ("ResNet-50", "MobileNet V1 1.0 224", "MobileNet V3-small")

TIMED = {
    "cortex-a53": ("cortex-a53", "cortex-a76", "neoverse-v1"),
    "neoverse-n1": ("cortex-a76", "neoverse-v1"),
    "max": ("neoverse-v1",),
}
"""Core that counts -> cores whose cycles are estimated: those that have what the target needs."""

CYCLES_OF = TIMED["cortex-a53"]

FEATURES = "+dotprod,+i8mm"

ITERATIONS = 100

PER_NETWORK = 3
"""Loops shown of each network."""

RELEASES = range(30, 13, -1)
"""Of LLVM: the newest that is installed has the best models."""


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly; ``branch`` is the address that it may jump to."""

    address: int
    text: str
    branch: int | None


@dataclass(frozen=True)
class Loop:
    """A loop without loops in it, and how many instructions of one inference are executed in it."""

    kernel: str
    body: tuple[Instruction, ...]
    executed: int

    @property
    def row(self) -> str:
        """The kernel without its number."""
        return re.sub(rf"^{NAME}_\d+_", "", self.kernel)


def table() -> str:
    """A row for the hottest loop of each kind of kernel: cycles of one iteration."""
    rows = []
    for core, timed in TIMED.items():
        for network in SHOWN:
            file = networks()[network]
            inputs = random_inputs(qimport.compile(file).inputs, 0)
            with tempfile.TemporaryDirectory() as folder:
                counted = count_model(file, core, "reference", inputs, Path(folder))
                found = hottest_loops(Path(folder) / NAME, counted)
            for loop in found[:PER_NETWORK]:
                cycles = [f"{estimate(loop, each):.1f}" if each in timed else "" for each in CYCLES_OF]
                share = f"{loop.executed / counted.instructions:.0%}"
                rows.append(
                    [f"`{CORES[core].target}`", network, f"`{loop.row}`", share, len(loop.body), *cycles]
                )
    return markdown(["target", "network", "kernel", "of all instructions", "instructions", *CYCLES_OF], rows)


def tools() -> str:
    """What estimated."""
    output = subprocess.run([llvm_mca(), "--version"], check=True, capture_output=True, text=True).stdout
    return f"with {emulator_version()} and llvm-mca {re.findall('version ([0-9.]+)', output)[0]}"


def hottest_loops(program: Path, counted: Counted) -> list[Loop]:
    """Of each kind of kernel the loop with the most executed instructions; the hottest kind first."""
    kinds: dict[str, Loop] = {}
    for loop in _all_loops(program, counted):
        if loop.row not in kinds or kinds[loop.row].executed < loop.executed:
            kinds[loop.row] = loop
    return sorted(kinds.values(), key=lambda loop: -loop.executed)


def _all_loops(program: Path, counted: Counted) -> list[Loop]:
    """Every innermost loop of the kernels."""
    executed: dict[int, int] = {}
    for (address, length), count in counted.executions.items():
        for number in range(length):
            executed[address + 4 * number] = executed.get(address + 4 * number, 0) + count
    loops = []
    for kernel, code in _disassembly(program).items():
        for begin, end in _innermost([(line.branch, line.address) for line in code if line.branch]):
            body = tuple(line for line in code if begin <= line.address <= end)
            loops.append(Loop(kernel, body, sum(executed.get(line.address, 0) for line in body)))
    return loops


def _innermost(branches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans from the target of a backward branch to the branch that hold no other such span."""
    spans = [(begin, end) for begin, end in branches if begin <= end]
    return [
        (begin, end)
        for begin, end in spans
        if not any((begin, end) != other and begin <= other[0] and other[1] <= end for other in spans)
    ]


def _disassembly(program: Path) -> dict[str, list[Instruction]]:
    """The code of each kernel."""
    command = [OBJDUMP, "-d", "--no-show-raw-insn", program]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions: dict[str, list[Instruction]] = {}
    code: list[Instruction] = []
    for line in output.splitlines():
        if head := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
            code = functions.setdefault(head[1], []) if head[1].startswith(f"{NAME}_") else []
        elif found := re.fullmatch(r"\s*([0-9a-f]+):\t(.+?)(\s*//.*)?", line):
            branch = re.fullmatch(r"(?:b|b\..+|cbn?z|tbn?z)\t(?:.*, )?([0-9a-f]+) <.+>", found[2])
            target = int(branch[1], 16) if branch else None
            code.append(Instruction(int(found[1], 16), found[2], target))
    return functions


def estimate(loop: Loop, core: str) -> float:
    """Cycles of one iteration on ``core`` when many follow each other."""
    # Addresses that code refers to stand as "hex <symbol>"; which one it is changes no time.
    body = "\n".join(re.sub(r"[0-9a-f]+ <.+>", "start", line.text) for line in loop.body)
    command = [llvm_mca(), "-mtriple=aarch64", f"-mcpu={core}", f"-mattr={FEATURES}"]
    command += [f"-iterations={ITERATIONS}", "-instruction-info=0", "-resource-pressure=0"]
    done = subprocess.run(command, input=f"start:\n{body}\n", capture_output=True, text=True, check=False)
    cycles = re.search(r"Total Cycles: +(\d+)", done.stdout)
    if cycles is None:
        raise SystemExit(f"llvm-mca does not take the loop of {loop.kernel}: {done.stderr}")
    return int(cycles[1]) / ITERATIONS


def llvm_mca() -> str:
    """The newest ``llvm-mca`` that is installed."""
    for name in [*(f"llvm-mca-{release}" for release in RELEASES), "llvm-mca"]:
        if path := shutil.which(name):
            return path
    raise SystemExit("llvm-mca is not installed; it comes with LLVM")


if __name__ == "__main__":
    print(table())
