"""Whole networks as programs for other processors: the object file linked with a driver, run by an emulator.

Every tensor and the arena lie once behind and once before inaccessible memory; inputs can only be read. On
systems without memory protection known bytes around each of them must stay.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from command_line import succeed

from qimport.codegen.target import target_named
from qimport.compiler import Compilation
from qimport.ir.graph import Array
from qimport.toolchain import require_compiler

EMULATORS: dict[str, tuple[str, ...]] = {
    "arm64": ("qemu-aarch64", "-cpu", "cortex-a53"),
    "arm64-dotprod": ("qemu-aarch64", "-cpu", "neoverse-n1"),
    "arm64-i8mm": ("qemu-aarch64", "-cpu", "max,sme=off"),
}
"""Target -> what runs its programs, as a processor that has little more than the target says."""

SECONDS = 120
"""How long a program may run."""

PAGES = r"""
#include <sys/mman.h>
#include <unistd.h>

struct room {
  char *data, *pages;
  size_t inner, page;
};

/* Writable memory between two inaccessible pages: at its begin, or as near to its end as `align` permits. */
static struct room take(size_t bytes, size_t align, int at_end) {
  struct room room;
  room.page = sysconf(_SC_PAGESIZE);
  room.inner = (bytes + room.page) / room.page * room.page;
  room.pages = mmap(0, room.inner + 2 * room.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(room.pages != MAP_FAILED);
  need(mprotect(room.pages + room.page, room.inner, PROT_READ | PROT_WRITE) == 0);
  room.data = room.pages + room.page + (at_end ? (room.inner - bytes) / align * align : 0);
  return room;
}

static void protect(const struct room *room) {
  need(mprotect(room->pages + room->page, room->inner, PROT_READ) == 0);
}

static void give_back(const struct room *room) {
  need(munmap(room->pages, room->inner + 2 * room->page) == 0);
}
"""

DRIVER = r"""
#define _GNU_SOURCE
#include "network.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int condition) {
  if (!condition) exit(1);
}
ROOMS
static const size_t input_bytes[] = {INPUTS}, output_bytes[] = {OUTPUTS};

/* Reads the inputs of every call and writes the outputs of every call, first and second time. */
int main(int argc, char **argv) {
  struct room arena, in[NETWORK_INPUTS + 1], out[NETWORK_OUTPUTS + 1];
  const void *inputs[NETWORK_INPUTS + 1];
  void *outputs[NETWORK_OUTPUTS + 1];
  size_t total = 0;
  int i, call, at_end, calls = atoi(argv[argc - 1]);
  char *content, *next;

  for (i = 0; i < NETWORK_INPUTS; ++i) total += input_bytes[i];
  content = malloc(total * calls + 1);
  need(content != NULL && fread(content, 1, total * calls, stdin) == total * calls);
  for (at_end = 0; at_end < 2; ++at_end) {
    arena = take(NETWORK_ARENA_BYTES, NETWORK_ARENA_ALIGNMENT, at_end);
#ifdef NETWORK_STATE_BYTES
    need(network_reset(arena.data) == NETWORK_OK);
#endif
    for (call = 0, next = content; call < calls; ++call) {
      for (i = 0; i < NETWORK_INPUTS; next += input_bytes[i++]) {
        in[i] = take(input_bytes[i], 1, at_end);
        inputs[i] = memcpy(in[i].data, next, input_bytes[i]);
        protect(&in[i]);
      }
      for (i = 0; i < NETWORK_OUTPUTS; ++i) {
        out[i] = take(output_bytes[i], 1, at_end);
        outputs[i] = memset(out[i].data, 0x5a, output_bytes[i]);
      }
      need(network_run(inputs, outputs, arena.data) == NETWORK_OK);
      for (i = 0; i < NETWORK_OUTPUTS; ++i) {
        need(fwrite(out[i].data, 1, output_bytes[i], stdout) == output_bytes[i]);
        give_back(&out[i]);
      }
      for (i = 0; i < NETWORK_INPUTS; ++i) give_back(&in[i]);
    }
    give_back(&arena);
  }
  return 0;
}
"""


@dataclass(frozen=True)
class NetworkProgram:
    """A linked program and the tensors it reads and writes."""

    command: tuple[str | Path, ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]

    def run(self, sequence: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Outputs of successive calls from the initial state; both placements must give the same."""
        content = b"".join(array.tobytes() for arrays in sequence for array in arrays)
        command = [*self.command, str(len(sequence))]
        done = subprocess.run(command, input=content, capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, f"the program ended with {done.returncode}: {done.stderr.decode()}"
        half = len(done.stdout) // 2
        assert done.stdout[:half] == done.stdout[half:], "outputs depend on where the memory lies"
        return self._calls(done.stdout[:half], len(sequence))

    def _calls(self, content: bytes, calls: int) -> list[list[Array]]:
        results, position = [], 0
        for _ in range(calls):
            arrays = []
            for shape, dtype in self.outputs:
                count = int(np.prod(shape))
                arrays.append(np.frombuffer(content, dtype, count, position).reshape(shape))
                position += count * dtype.itemsize
            results.append(arrays)
        assert position == len(content)
        return results


def build_network(stages: Compilation, folder: Path) -> NetworkProgram:
    """The program of a model for the target of ``stages``: this machine's, or one that has an emulator."""
    target, numerics = stages.options.target, stages.options.numerics
    names = ("--target", target.name, "--numerics", numerics, "--name", "network")
    succeed("build", stages.source, "-o", folder, *names)
    objects = folder / "network.o"
    sizes = [
        ", ".join([*(str(np.dtype(t.dtype).itemsize * int(np.prod(t.shape))) for t in tensors), "0"])
        for tensors in (stages.inputs, stages.outputs)
    ]
    source = DRIVER.replace("ROOMS", PAGES)
    source = source.replace("{INPUTS}", f"{{{sizes[0]}}}").replace("{OUTPUTS}", f"{{{sizes[1]}}}")
    (folder / "driver.c").write_text(source)
    program = folder / "network"
    options = ["-O1", "-static", "-o", program, folder / "driver.c", objects]
    require_compiler(target_named(target.name)).run(*options)
    outputs = tuple((info.shape, np.dtype(info.dtype)) for info in stages.outputs)
    return NetworkProgram((*EMULATORS.get(target.name, ()), program), outputs)
