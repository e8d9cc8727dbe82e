"""A complete C99 program around a compiled model: raw tensors from files, raw tensors to files."""

from __future__ import annotations

from qimport.codegen.interface import Interface

_HELPERS = r"""
static int complain(const char *path, const char *what) {
  fprintf(stderr, "%s: %s\n", path, what);
  return 0;
}

/* Fills memory from a file of exactly its size. */
static int read_file(const char *path, const char *name, void *data, size_t bytes) {
  FILE *file = fopen(path, "rb");
  size_t found;
  int longer, failed;
  if (file == NULL) return complain(path, strerror(errno));
  found = fread(data, 1, bytes, file);
  longer = found == bytes && fgetc(file) != EOF;
  failed = ferror(file);
  fclose(file);
  if (failed) return complain(path, "cannot be read");
  if (found == bytes && !longer) return 1;
  fprintf(stderr, "%s: holds %s %lu bytes, but %s takes %lu\n", path, longer ? "more than" : "only",
          (unsigned long)found, name, (unsigned long)bytes);
  return 0;
}

/* Writes memory to a file. */
static int write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  int complete;
  if (file == NULL) return complain(path, strerror(errno));
  complete = fwrite(data, 1, bytes, file) == bytes;
  complete = fclose(file) == 0 && complete;
  return complete ? 1 : complain(path, "cannot be written");
}

/* The first address in room that is a multiple of alignment: C99 has no word for alignment. */
static void *align(unsigned char *room, size_t alignment) {
  return room + (alignment - (uintptr_t)room % alignment) % alignment;
}
"""


def example_text(api: Interface) -> str:
    """The program. It exits with 0, with 1 for a file it cannot use, with 2 when called wrongly."""
    return "\n".join([_opening(api), _HELPERS.lstrip("\n"), _buffers(api), _main(api)])


def _usage(api: Interface) -> str:
    """Names of files; a model with state takes those of several calls, one after the other."""
    ins = [f"IN{i}.raw" for i in range(len(api.inputs))]
    files = " ".join(ins + [f"OUT{i}.raw" for i in range(len(api.outputs))])
    weights = "" if api.weights is None else f"{api.file}_weights.bin "
    return weights + (f"{files} [{files} ...]" if api.state_bytes else files)


def _opening(api: Interface) -> str:
    return f"""\
/* Runs the model of {api.file}.h on files of raw little-endian tensors, in the order of the header:
 *
 *   example {_usage(api)}
 *
 * Build:  cc -std=c99 -O2 {api.file}_example.c {api.file}.o -o example
 */
#define {api.macro}_TENSOR_TABLES
#include "{api.file}.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
"""


def _buffers(api: Interface) -> str:
    m = api.macro
    lines = []
    for kind, group in (("INPUT", api.inputs), ("OUTPUT", api.outputs)):
        names = [f"{kind.lower()}{number}" for number in range(len(group))]
        for name in names:
            macro = f"{m}_{name.upper()}"
            lines.append(f"static {macro}_TYPE {name}[{macro}_ELEMENTS];")
        pointers = ", ".join([*names, "NULL"])
        lines.append(f"static void *const {kind.lower()}s[{m}_{kind}S + 1] = {{{pointers}}};")
    lines.append(f"static unsigned char arena_room[{m}_ARENA_BYTES + {m}_ARENA_ALIGNMENT];")
    if api.weights is not None:
        lines.append(f"static unsigned char weights_room[{m}_WEIGHTS_BYTES + {m}_WEIGHTS_ALIGNMENT];")
    return "\n".join(lines) + "\n"


def _main(api: Interface) -> str:
    p, m = api.prefix, api.macro
    weights = api.weights is not None
    first = 2 if weights else 1
    wrong = (
        f"argc <= {first} || (argc - {first}) % files != 0" if api.state_bytes else f"argc != {first} + files"
    )
    return f"""\
int main(int argc, char **argv) {{
  const void *sources[{m}_INPUTS + 1];
  void *const arena = align(arena_room, {m}_ARENA_ALIGNMENT);
{f"  void *const weights = align(weights_room, {m}_WEIGHTS_ALIGNMENT);{chr(10)}" if weights else ""}\
  const int files = {m}_INPUTS + {m}_OUTPUTS;
  int i, result;

  if ({wrong}) {{
    fprintf(stderr, "usage: example {_usage(api)}\\n");
    return 2;
  }}
  if ({p}_arena_size() != {m}_ARENA_BYTES) {{
    fprintf(stderr, "{api.file}.h and {api.file}.o are not of one build\\n");
    return 2;
  }}
{_load_weights(api) if weights else ""}{f"  {p}_reset(arena);{chr(10)}" if api.has_reset else ""}\
  for (i = 0; i < {m}_INPUTS; ++i) sources[i] = inputs[i];

  for (argv += {first}; *argv != NULL; argv += files) {{
    for (i = 0; i < {m}_INPUTS; ++i) {{
      if (!read_file(argv[i], {p}_inputs[i].name, inputs[i], {p}_inputs[i].bytes)) return 1;
    }}
    result = {p}_run(sources, outputs, arena{", weights" if weights else ""});
    if (result != {m}_OK) {{
      fprintf(stderr, "{p}_run: %s\\n", {p}_result_text(result));
      return 1;
    }}
    for (i = 0; i < {m}_OUTPUTS; ++i) {{
      if (!write_file(argv[{m}_INPUTS + i], outputs[i], {p}_outputs[i].bytes)) return 1;
    }}
  }}
  return 0;
}}
"""


def _load_weights(api: Interface) -> str:
    p, m = api.prefix, api.macro
    return f"""\
  if (!read_file(argv[1], "{p}", weights, {m}_WEIGHTS_BYTES)) return 1;
  if ({p}_check_weights(weights) != {m}_OK) {{
    fprintf(stderr, "%s: does not belong to {api.file}.o\\n", argv[1]);
    return 1;
  }}
"""
