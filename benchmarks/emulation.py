"""Programs for AArch64 under qemu, and how many instructions they execute: the same in every run.

Instructions are counted by ``count_blocks.c``, a plugin compiled when it is first needed.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import qimport
from qimport.arrays import Array
from qimport.oracle import ARM64_CORE, ARM64_PYTHON

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
SIZE, OBJDUMP = "size", "aarch64-linux-gnu-objdump"


@dataclass(frozen=True)
class Core:
    """A core, our target for it, what qemu calls it, and the numerics mode of XNNPACK on it."""

    target: str
    emulated: str
    numerics: str


CORES = {
    "cortex-a53": Core("arm64", "cortex-a53", "xnnpack-arm64-little"),
    "neoverse-n1": Core("arm64-dotprod", "neoverse-n1", "xnnpack-arm64"),
    # qemu 7.2 computes SME wrongly.
    "max": Core("arm64-i8mm", "max,sme=off", "xnnpack-arm64"),
}

NAME = "network"

DRIVER = r"""
#include "network.h"
#include <stdio.h>
#include <stdlib.h>

static const size_t input_bytes[] = {INPUTS}, output_bytes[] = {OUTPUTS};
enum { inputs = NETWORK_INPUTS, outputs = NETWORK_OUTPUTS };

static void *room(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (memory == NULL) exit(1);
  return memory;
}

int main(int argc, char **argv) {
  void *in[inputs], *out[outputs], *arena = room(network_arena_size());
  int i, calls = argc > 1 ? atoi(argv[1]) : 1;
  for (i = 0; i < inputs; ++i) {
    in[i] = room(input_bytes[i]);
    if (fread(in[i], 1, input_bytes[i], stdin) != input_bytes[i]) return 1;
  }
  for (i = 0; i < outputs; ++i) out[i] = room(output_bytes[i]);
  while (calls-- > 0) {
    if (network_run((const void *const *)in, out, arena) != 0) return 1;
  }
  for (i = 0; i < outputs; ++i) fwrite(out[i], 1, output_bytes[i], stdout);
  return 0;
}
"""

INTERPRETER = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
model, folder, calls = sys.argv[1:]
interpreter = Interpreter(model, num_threads=1)
interpreter.allocate_tensors()
for number, detail in enumerate(interpreter.get_input_details()):
    interpreter.set_tensor(detail["index"], np.load(f"{folder}/{number}.npy"))
for _ in range(int(calls)):
    interpreter.invoke()
for detail in interpreter.get_output_details():
    sys.stdout.buffer.write(interpreter.get_tensor(detail["index"]).tobytes())
"""
"""What the interpreter runs; its first call also packs weights."""

Block = tuple[int, int]
"""Address and number of instructions."""


@dataclass(frozen=True)
class Counted:
    """How often each block of a program was executed, and what the program wrote."""

    executions: Counter[Block]
    output: bytes

    @property
    def instructions(self) -> int:
        """Of the whole program."""
        return sum(length * count for (_, length), count in self.executions.items())


def between(longer: Counted, shorter: Counted) -> Counted:
    """What the further calls of the longer run execute."""
    return Counted(longer.executions - shorter.executions, longer.output)


@functools.cache
def plugin() -> Path:
    """The compiled plugin, in a folder that is removed at the end of this process."""
    path = Path(_folder().name) / "count_blocks.so"
    source = Path(__file__).with_name("count_blocks.c")
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="qimport-count-")


def run_counted(command: Sequence[str | Path], stdin: bytes = b"", **environment: str) -> Counted:
    """Run a command that is an emulator or starts one."""
    counts = Path(_folder().name) / "counts"
    settings = {**os.environ, **environment, "QEMU_PLUGIN": f"{plugin()},out={counts}"}
    done = subprocess.run(command, input=stdin, env=settings, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.decode()}")
    executions: Counter[Block] = Counter()
    for line in counts.read_text().splitlines():
        address, length, count = line.split()
        executions[int(address, 16), int(length)] += int(count)
    return Counted(executions, done.stdout)


def count_model(model: Path, core: str, numerics: str, inputs: Sequence[Array], folder: Path) -> Counted:
    """One call of a model, other than the first, compiled for ``core``; ``folder`` gets object and program.

    The program must give the bytes that the model gives on this machine.
    """
    session = qimport.compile(model, numerics=numerics).session(inputs)
    session.run()
    wanted = b"".join(array.tobytes() for array in session.outputs)
    target = CORES[core].target
    options = ["--target", target, "--numerics", numerics, "--name", NAME, "-o", str(folder)]
    builder = [sys.executable, "-m", "qimport", "build", str(model), *options]
    subprocess.run(builder, check=True, stdout=subprocess.DEVNULL)
    program = _link(folder, [array.nbytes for array in inputs], [array.nbytes for array in session.outputs])
    content = b"".join(array.tobytes() for array in inputs)
    command = [EMULATOR, "-cpu", CORES[core].emulated, program]
    once, twice = (run_counted([*command, str(calls)], content) for calls in (1, 2))
    if twice.output != wanted:
        raise SystemExit(f"{model.name}, {numerics}: {target} gives other bytes than this machine")
    return between(twice, once)


def _link(folder: Path, inputs: Sequence[int], outputs: Sequence[int]) -> Path:
    """The program around the object in ``folder``, whose tensors have so many bytes."""
    source = DRIVER
    for word, sizes in (("INPUTS", inputs), ("OUTPUTS", outputs)):
        source = source.replace(f"{{{word}}}", f"{{{', '.join(map(str, sizes))}}}")
    (folder / "main.c").write_text(source)
    program = folder / NAME
    parts = [folder / "main.c", folder / f"{NAME}.o"]
    subprocess.run([COMPILER, "-O1", "-static", "-no-pie", "-o", program, *parts], check=True)
    return program


def emulator_version() -> str:
    """Name and version of the emulator."""
    output = subprocess.run([EMULATOR, "--version"], check=True, capture_output=True, text=True).stdout
    return f"{EMULATOR} {output.split()[2]}"


def count_interpreter(model: Path, core: str, inputs: Sequence[Array]) -> tuple[int, bytes]:
    """Instructions of one ``invoke()`` of the interpreter with XNNPACK, other than the first; its outputs."""
    python = os.environ.get(ARM64_PYTHON)
    if not python:
        raise SystemExit(f"{ARM64_PYTHON} is unset: it names a Python for AArch64 with the interpreter")
    with tempfile.TemporaryDirectory() as folder:
        for number, array in enumerate(inputs):
            np.save(f"{folder}/{number}.npy", array)
        command = [python, "-c", INTERPRETER, model, folder]
        settings = {ARM64_CORE: core, "PYTHONHASHSEED": "0"}
        once, thrice = (run_counted([*command, str(calls)], **settings) for calls in (1, 3))
    return (thrice.instructions - once.instructions) // 2, thrice.output


def section_bytes(objects: Path) -> tuple[int, int]:
    """Bytes of code and of constants of an object file."""
    output = subprocess.run([SIZE, "-A", objects], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in output.splitlines() if line.startswith(".")]
    sections = {name: int(size) for name, size, _ in lines}
    return sections[".text"], sum(size for name, size in sections.items() if name.startswith(".rodata"))
