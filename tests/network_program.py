"""Whole networks as programs for other processors: the object file linked with a driver, run by an emulator.

Every tensor and the arena lie once behind and once before inaccessible memory; inputs can only be read. On
systems without memory protection known bytes around each of them must stay.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from command_line import succeed
from emulator import HOST, PLATFORMS, Platform

from qimport.artefact import TensorInfo
from qimport.compiler import Compilation
from qimport.ir.graph import Array
from qimport.toolchain import platform_of

NAME = "network"

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

/* From now on the memory can only be read. */
static void protect(struct room *room) {
  need(mprotect(room->pages + room->page, room->inner, PROT_READ) == 0);
}

static void give_back(struct room *room) {
  need(munmap(room->pages, room->inner + 2 * room->page) == 0);
}
"""
"""Memory where an operating system protects it."""

MARGINS = r"""
struct room {
  char *data, *memory, *copy;
  size_t bytes;
};

enum { MARGIN = 256, FILLING = 0x3c };

/* Memory between margins of known bytes; the second time at an odd address, where `align` permits. */
static struct room take(size_t bytes, size_t align, int again) {
  struct room room;
  room.memory = malloc(bytes + 2 * MARGIN);
  need(room.memory != NULL);
  memset(room.memory, FILLING, bytes + 2 * MARGIN);
  room.data = room.memory + MARGIN / 2;
  room.data += (align - (size_t)room.data % align) % align;
  if (again && align == 1 && (size_t)room.data % 2 == 0) ++room.data;
  room.copy = NULL;
  room.bytes = bytes;
  return room;
}

/* From now on the bytes must stay. */
static void protect(struct room *room) {
  room->copy = malloc(room->bytes + 1);
  need(room->copy != NULL);
  memcpy(room->copy, room->data, room->bytes);
}

static void give_back(struct room *room) {
  const char *byte, *end = room->memory + room->bytes + 2 * MARGIN;
  for (byte = room->memory; byte < room->data; ++byte) need(*byte == FILLING);
  for (byte = room->data + room->bytes; byte < end; ++byte) need(*byte == FILLING);
  need(room->copy == NULL || memcmp(room->copy, room->data, room->bytes) == 0);
  free(room->copy);
  free(room->memory);
}
"""
"""Memory where nothing protects it: whoever writes beside a tensor is found when it is given back."""

DRIVER = r"""
#define _GNU_SOURCE
#include "network.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int condition) {
  if (!condition) exit(3);
}
MEMORY
static const size_t input_bytes[] = {INPUTS}, output_bytes[] = {OUTPUTS};

/* network CALLS IN OUT: reads the inputs and writes the outputs of every call, all of it twice. */
int main(int argc, char **argv) {
  struct room arena, in[NETWORK_INPUTS + 1], out[NETWORK_OUTPUTS + 1];
  const void *inputs[NETWORK_INPUTS + 1];
  void *outputs[NETWORK_OUTPUTS + 1];
  int i, call, again, calls;
  FILE *source, *sink;

  need(argc == 4);
  calls = atoi(argv[1]);
  sink = fopen(argv[3], "wb");
  need(sink != NULL);
  for (again = 0; again < 2; ++again) {
    source = fopen(argv[2], "rb");
    need(source != NULL);
    arena = take(NETWORK_ARENA_BYTES, NETWORK_ARENA_ALIGNMENT, again);
#ifdef NETWORK_STATE_BYTES
    need(network_reset(arena.data) == NETWORK_OK);
#endif
    for (call = 0; call < calls; ++call) {
      for (i = 0; i < NETWORK_INPUTS; ++i) {
        in[i] = take(input_bytes[i], 1, again);
        inputs[i] = in[i].data;
        need(fread(in[i].data, 1, input_bytes[i], source) == input_bytes[i]);
        protect(&in[i]);
      }
      for (i = 0; i < NETWORK_OUTPUTS; ++i) {
        out[i] = take(output_bytes[i], 1, again);
        outputs[i] = memset(out[i].data, 0x5a, output_bytes[i]);
      }
      need(network_run(inputs, outputs, arena.data) == NETWORK_OK);
      for (i = 0; i < NETWORK_OUTPUTS; ++i) {
        need(fwrite(out[i].data, 1, output_bytes[i], sink) == output_bytes[i]);
        give_back(&out[i]);
      }
      for (i = 0; i < NETWORK_INPUTS; ++i) give_back(&in[i]);
    }
    give_back(&arena);
    need(fclose(source) == 0);
  }
  return fclose(sink) != 0;
}
"""


@dataclass(frozen=True)
class NetworkProgram:
    """A linked program and the tensors it writes."""

    platform: Platform
    program: Path
    outputs: tuple[TensorInfo, ...]

    def run(self, sequence: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Outputs of successive calls from the initial state, which must be the same in both placements."""
        folder = self.program.parent
        (folder / "in.raw").write_bytes(b"".join(array.tobytes() for arrays in sequence for array in arrays))
        self.platform.run(self.program, str(len(sequence)), "in.raw", "out.raw")
        content = (folder / "out.raw").read_bytes()
        first, second = content[: len(content) // 2], content[len(content) // 2 :]
        assert first == second, "outputs depend on where the memory lies"
        stream = io.BytesIO(first)
        results = [[read_array(stream, info) for info in self.outputs] for _ in sequence]
        assert not stream.read()
        return results


def build_network(stages: Compilation, folder: Path) -> NetworkProgram:
    """The program of a model for the target of ``stages``: this machine's, or one that has an emulator."""
    platform = PLATFORMS.get(stages.options.target.name, HOST)
    objects = build_objects(stages, folder)
    source = DRIVER.replace("MEMORY", PAGES if platform_of(stages.options.target).hosted else MARGINS)
    for word, tensors in (("INPUTS", stages.inputs), ("OUTPUTS", stages.outputs)):
        sizes = [*map(nbytes, tensors), 0]
        source = source.replace(f"{{{word}}}", f"{{{', '.join(map(str, sizes))}}}")
    (folder / "driver.c").write_text(source)
    program = platform.link([folder / "driver.c", objects], folder / NAME)
    return NetworkProgram(platform, program, stages.outputs)


def build_objects(stages: Compilation, folder: Path) -> Path:
    """The object file, with the header beside it, that the command line makes of a file."""
    options = stages.options
    names = ("--target", options.target.name, "--numerics", options.numerics, "--name", NAME)
    succeed("build", stages.source, "-o", folder, *names)
    return folder / f"{NAME}.o"


def nbytes(info: TensorInfo) -> int:
    """Bytes of a tensor."""
    return math.prod(info.shape) * np.dtype(info.dtype).itemsize


def read_array(stream: io.BytesIO, info: TensorInfo) -> Array:
    """The next tensor of a stream."""
    return np.frombuffer(stream.read(nbytes(info)), info.dtype).reshape(info.shape)
