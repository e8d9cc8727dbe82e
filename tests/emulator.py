"""Runs kernels for AArch64 under an emulator: one statically linked program for all kernels of a module."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from kernel_harness import KernelModule, result_indices, result_room

from qimport.ir.graph import Array
from qimport.ir.interpret import interpret

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

MOST_ARGUMENTS = 8

# For every kernel the input holds the number of arguments, the number of the one that is also the result, and
# size and content of each; the output holds the result of two runs: before one guard page, and after another.
DRIVER = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void kernel(void *, void *, void *, void *, void *, void *, void *, void *);
DECLARATIONS
static kernel *const kernels[] = {NAMES};

static void need(int condition) {
  if (!condition) exit(1);
}

static uint64_t number(void) {
  uint64_t value;
  need(fread(&value, 8, 1, stdin) == 1);
  return value;
}

static char *guarded(const char *content, uint64_t size, int at_end) {
  uint64_t page = sysconf(_SC_PAGESIZE), room = size / page * page + page;
  char *base = mmap(0, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(base != MAP_FAILED && !mprotect(base + page, room, PROT_READ | PROT_WRITE));
  return memcpy(base + page + (at_end ? room - size : 0), content, size);
}

int main(void) {
  for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; ++k) {
    uint64_t count = number(), result = number(), size[MOST] = {0};
    char *content[MOST], *argument[MOST] = {0};
    need(count <= MOST);
    for (uint64_t i = 0; i < count; ++i) {
      size[i] = number();
      content[i] = malloc(size[i] + 1);
      need(fread(content[i], 1, size[i], stdin) == size[i]);
    }
    for (int at_end = 0; at_end < 2; ++at_end) {
      for (uint64_t i = 0; i < count; ++i) argument[i] = guarded(content[i], size[i], at_end);
      if (result != count - 1) argument[count - 1] = argument[result];
      char **a = argument;
      kernels[k](a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
      need(fwrite(argument[result], 1, size[result], stdout) == size[result]);
    }
  }
  return 0;
}
"""


def skip_without_emulator() -> None:
    """Skip the calling test where compiler or emulator are missing."""
    for tool in (COMPILER, EMULATOR):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@dataclass(frozen=True)
class Invocation:
    """A call of ``name`` with pointers to the blobs; number ``result`` is its result."""

    name: str
    blobs: tuple[bytes, ...]
    result: int

    @property
    def stream(self) -> bytes:
        """What the driver reads."""
        header = struct.pack("<QQ", len(self.blobs), self.result)
        return header + b"".join(struct.pack("<Q", len(blob)) + blob for blob in self.blobs)


def run_emulated(object_code: bytes, calls: Sequence[Invocation], directory: Path) -> list[list[bytes]]:
    """The result of every call, first before and then behind inaccessible memory."""
    names = [call.name for call in calls]
    source = DRIVER.replace("DECLARATIONS", "\n".join(f"kernel {name};" for name in dict.fromkeys(names)))
    source = source.replace("NAMES", ", ".join(names)).replace("MOST", str(MOST_ARGUMENTS))
    (directory / "driver.c").write_text(source)
    (directory / "kernels.o").write_bytes(object_code)
    command = [COMPILER, "-O1", "-static", "-o", "run", "driver.c", "kernels.o"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    stream = b"".join(call.stream for call in calls)
    run = subprocess.run([EMULATOR, directory / "run"], input=stream, capture_output=True, check=False)
    assert run.returncode == 0, f"the emulated program ended with {run.returncode}: {run.stderr.decode()}"
    output, results = memoryview(run.stdout), []
    for call in calls:
        size = len(call.blobs[call.result])
        results.append([bytes(output[i * size : (i + 1) * size]) for i in range(2)])
        output = output[2 * size :]
    assert not output
    return results


def check_emulated(
    module: KernelModule, operands: Sequence[Sequence[Array]], directory: Path, overwritten: int = 0
) -> list[str]:
    """Run every kernel of ``module`` on its operands; the names of those that differ from the interpreter.

    Kernels that work in place overwrite operand number ``overwritten``. Gaps between rows must stay.
    """
    calls = []
    for emitted, arrays in zip(module.kernels, operands, strict=True):
        blobs = (
            *(array.tobytes() for array in arrays),
            emitted.tables,
            result_room(emitted.kernel).tobytes(),
        )
        place = overwritten % len(arrays) if emitted.kernel.in_place else len(blobs) - 1
        calls.append(Invocation(emitted.name, blobs, place))
    wrong = []
    results = run_emulated(module.object_code(), calls, directory)
    for emitted, arrays, found in zip(module.kernels, operands, results, strict=True):
        with np.errstate(invalid="ignore"):
            wanted = interpret(emitted.kernel.graph, arrays)[0]
        room = result_room(emitted.kernel)
        room[result_indices(emitted.kernel)] = wanted.ravel()
        if found != [room.tobytes()] * 2:
            wrong.append(emitted.name)
    return wrong
