"""Many small models in one program for another processor: what each of their calls gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from emulator import Platform

from qimport.codegen.aot import interface_of, translate
from qimport.compiler import Compilation
from qimport.ir.graph import Array

DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int run_function(const void *const *, void *const *, void *);
typedef int reset_function(void *);

struct model {
  run_function *run;
  reset_function *reset;
  size_t arena;
  unsigned calls, inputs, outputs;
  size_t bytes[MOST];
};

DECLARATIONS
static const struct model models[] = {MODELS};

static void need(int condition) {
  if (!condition) exit(1);
}

/* At an odd address: tensors need no alignment. */
static char *tensor(size_t bytes) {
  char *room = malloc(bytes + 1);
  need(room != NULL);
  return room + 1;
}

static void run(const struct model *model, FILE *input, FILE *output) {
  unsigned i, call, count = model->inputs + model->outputs;
  const void *inputs[MOST];
  void *outputs[MOST];
  char *place[MOST], *room = malloc(model->arena + 64), *arena = room + 64 - (uintptr_t)room % 64;
  need(room != NULL);
  for (i = 0; i < count; ++i) place[i] = tensor(model->bytes[i]);
  for (i = 0; i < model->inputs; ++i) inputs[i] = place[i];
  for (i = 0; i < model->outputs; ++i) outputs[i] = place[model->inputs + i];
  if (model->reset != NULL) need(model->reset(arena) == 0);
  for (call = 0; call < model->calls; ++call) {
    for (i = 0; i < model->inputs; ++i)
      need(fread(place[i], 1, model->bytes[i], input) == model->bytes[i]);
    need(model->run(inputs, outputs, arena) == 0);
    for (; i < count; ++i) need(fwrite(place[i], 1, model->bytes[i], output) == model->bytes[i]);
  }
  for (i = 0; i < count; ++i) free(place[i] - 1);
  free(room);
}

int main(int argc, char **argv) {
  FILE *input, *output;
  need(argc == 3 && (input = fopen(argv[1], "rb")) != NULL && (output = fopen(argv[2], "wb")) != NULL);
  for (unsigned i = 0; i < sizeof models / sizeof *models; ++i) run(&models[i], input, output);
  return fclose(output);
}
"""


@dataclass(frozen=True)
class Calls:
    """A model and the inputs of successive calls."""

    stages: Compilation
    sequence: Sequence[Sequence[Array]]


def run_models(platform: Platform, models: Sequence[Calls], folder: Path) -> list[list[list[Array]]]:
    """The outputs of every call of every model."""
    most, rows, declarations, objects = 1, [], [], []
    for number, model in enumerate(models):
        stages, prefix = model.stages, f"m{number}"
        api = interface_of(
            prefix, stages.inputs, stages.outputs, stages.plan, stages.options.target, stages.options.numerics
        )
        objects.append(folder / f"{prefix}.o")
        objects[-1].write_bytes(translate(api, stages.plan).object_code)
        sizes = [info.type.nbytes for info in (*stages.inputs, *stages.outputs)]
        most = max(most, len(sizes))
        declarations.append(f"run_function {prefix}_run;")
        reset = f"{prefix}_reset" if api.state_bytes else "NULL"
        if api.state_bytes:
            declarations.append(f"reset_function {reset};")
        counts = (api.arena_bytes, len(model.sequence), len(stages.inputs), len(stages.outputs))
        row = ", ".join(map(str, (f"{prefix}_run", reset, *counts)))
        rows.append(f"{{{row}, {{{', '.join(map(str, sizes))}}}}}")
    source = DRIVER.replace("DECLARATIONS", "\n".join(declarations)).replace("MODELS", ",\n".join(rows))
    driver = folder / "driver.c"
    driver.write_text(source.replace("MOST", str(most)))
    program = platform.link([driver, *objects], folder / "program")
    arrays = [array for model in models for call in model.sequence for array in call]
    (folder / "in").write_bytes(b"".join(array.tobytes() for array in arrays))
    platform.run(program, "in", "out")
    return _split((folder / "out").read_bytes(), models)


def _split(content: bytes, models: Sequence[Calls]) -> list[list[list[Array]]]:
    position, results = 0, []
    for model in models:
        results.append([])
        for _ in model.sequence:
            arrays = []
            for info in model.stages.outputs:
                found = np.frombuffer(content, info.type.numpy, info.type.size, position)
                arrays.append(found.reshape(info.type.shape))
                position += info.type.nbytes
            results[-1].append(arrays)
    assert position == len(content)
    return results
