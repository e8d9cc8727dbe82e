"""Runs kernels for other processors: one program for all kernels of a module."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from emulator import platform_for
from kernel_harness import KernelModule, result_indices, result_room
from wasm_module import WasmModule, skip_without_wasm

from qimport.codegen.target import WASM32, Target
from qimport.ir.graph import Array
from qimport.ir.interpret import interpret

MOST_ARGUMENTS = 8

# For every kernel the input holds the number of arguments, the number of the one that is also the result, and
# size and content of each; the output holds the result of two runs: at the begin of its room and at the end.
# Around the rooms are pages that must not be touched, or on boards without pages bytes that must stay.
DRIVER = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void kernel(void *, void *, void *, void *, void *, void *, void *, void *);
DECLARATIONS
static kernel *const kernels[] = {NAMES};

struct room {
  char *base, *data;
  size_t size;
};

static FILE *input, *output;

static void need(int condition) {
  if (!condition) exit(1);
}

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>

static void close_room(struct room *room) {
  size_t page = sysconf(_SC_PAGESIZE);
  munmap(room->base, room->size / page * page + 3 * page);
}

static void open_room(struct room *room, int at_end) {
  size_t page = sysconf(_SC_PAGESIZE), inside = room->size / page * page + page;
  room->base = mmap(0, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(room->base != MAP_FAILED && !mprotect(room->base + page, inside, PROT_READ | PROT_WRITE));
  room->data = room->base + page + (at_end ? inside - room->size : 0);
}
#else
#define EDGE 64

static void close_room(struct room *room) {
  char *end = room->base + room->size + 4 * EDGE;
  for (char *p = room->base; p < room->data; ++p) need(*p == 0x5A);
  for (char *p = room->data + room->size; p < end; ++p) need(*p == 0x5A);
  free(room->base);
}

static void open_room(struct room *room, int at_end) {
  need((room->base = malloc(room->size + 4 * EDGE)) != NULL);
  memset(room->base, 0x5A, room->size + 4 * EDGE);
  room->data = room->base + 2 * EDGE - (uintptr_t)room->base % EDGE;
  if (at_end) room->data += EDGE - 1 - (room->size - 1) % EDGE;
}
#endif

static uint64_t number(void) {
  uint64_t value;
  need(fread(&value, 8, 1, input) == 1);
  return value;
}

int main(int argc, char **argv) {
  need(argc == 3 && (input = fopen(argv[1], "rb")) != NULL && (output = fopen(argv[2], "wb")) != NULL);
  for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; ++k) {
    unsigned count = number(), result = number();
    struct room room[MOST] = {{0}};
    char *content[MOST], *a[MOST] = {0};
    need(count <= MOST);
    for (unsigned i = 0; i < count; ++i) {
      room[i].size = number();
      need((content[i] = malloc(room[i].size + 1)) != NULL);
      need(fread(content[i], 1, room[i].size, input) == room[i].size);
    }
    for (int at_end = 0; at_end < 2; ++at_end) {
      for (unsigned i = 0; i < count; ++i) {
        open_room(&room[i], at_end);
        a[i] = memcpy(room[i].data, content[i], room[i].size);
      }
      if (result != count - 1) a[count - 1] = a[result];
      kernels[k](a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
      need(fwrite(a[result], 1, room[result].size, output) == room[result].size);
      for (unsigned i = 0; i < count; ++i) close_room(&room[i]);
    }
    for (unsigned i = 0; i < count; ++i) free(content[i]);
  }
  return fclose(output);
}
"""


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


def skip_without_tools(target: Target) -> None:
    """Skip the calling test where something is missing that code for a target needs to run."""
    if target.architecture is WASM32:
        skip_without_wasm(target)
    else:
        platform_for(target).skip_if_missing()


def run_emulated(
    target: Target, object_code: bytes, calls: Sequence[Invocation], directory: Path
) -> list[list[bytes]]:
    """The result of every call, first with all arguments at the begin of their rooms, then at the end."""
    objects = directory / "kernels.o"
    objects.write_bytes(object_code)
    if target.architecture is WASM32:
        return _run_in_wasm(WasmModule(target, objects, sorted({call.name for call in calls})), calls)
    platform = platform_for(target)
    names = [call.name for call in calls]
    source = DRIVER.replace("DECLARATIONS", "\n".join(f"kernel {name};" for name in dict.fromkeys(names)))
    source = source.replace("NAMES", ", ".join(names)).replace("MOST", str(MOST_ARGUMENTS))
    driver = directory / "driver.c"
    driver.write_text(source)
    program = platform.link([driver, objects], directory / "run")
    (directory / "in").write_bytes(b"".join(call.stream for call in calls))
    platform.run(program, "in", "out")
    output, results = memoryview((directory / "out").read_bytes()), []
    for call in calls:
        size = len(call.blobs[call.result])
        results.append([bytes(output[i * size : (i + 1) * size]) for i in range(2)])
        output = output[2 * size :]
    assert not output
    return results


def _run_in_wasm(module: WasmModule, calls: Sequence[Invocation]) -> list[list[bytes]]:
    """The same in WebAssembly; the second time at addresses one byte further."""
    results = []
    for call in calls:
        found = []
        for shift in range(2):
            instance = module.instance()
            tables = len(call.blobs) - 2  # which may be sure of their alignment
            places = [
                instance.take_filled(blob, 0 if number == tables else shift)
                for number, blob in enumerate(call.blobs)
            ]
            if call.result != len(places) - 1:
                places[-1] = places[call.result]
            instance.call(call.name, *places)
            found.append(instance.read(places[call.result], len(call.blobs[call.result])))
            instance.check_margins()
        results.append(found)
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
    results = run_emulated(module.target, module.object_code(), calls, directory)
    for emitted, arrays, found in zip(module.kernels, operands, results, strict=True):
        with np.errstate(invalid="ignore"):
            wanted = interpret(emitted.kernel.graph, arrays)[0]
        room = result_room(emitted.kernel)
        room[result_indices(emitted.kernel)] = wanted.ravel()
        if found != [room.tobytes()] * 2:
            wrong.append(emitted.name)
    return wrong
