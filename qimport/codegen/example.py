"""A complete C99 program around a compiled model: raw tensors from files, raw tensors to files."""

from __future__ import annotations

from qimport.codegen.interface import Interface

_HELPERS = r"""
struct tensor {
  const char *name;
  void *data;
  size_t bytes;
};

static int complain(const char *path, const char *what) {
  fprintf(stderr, "%s: %s\n", path, what);
  return 0;
}

/* Fills the tensor from a file of exactly its size. */
static int read_tensor(const char *path, const struct tensor *tensor) {
  FILE *file = fopen(path, "rb");
  size_t found;
  int longer, failed;
  if (file == NULL) return complain(path, strerror(errno));
  found = fread(tensor->data, 1, tensor->bytes, file);
  longer = found == tensor->bytes && fgetc(file) != EOF;
  failed = ferror(file);
  fclose(file);
  if (failed) return complain(path, "cannot be read");
  if (found == tensor->bytes && !longer) return 1;
  fprintf(stderr, "%s: holds %s %lu bytes, but input %s takes %lu\n", path, longer ? "more than" : "only",
          (unsigned long)found, tensor->name, (unsigned long)tensor->bytes);
  return 0;
}

/* Writes the tensor's bytes to a file. */
static int write_tensor(const char *path, const struct tensor *tensor) {
  FILE *file = fopen(path, "wb");
  int complete;
  if (file == NULL) return complain(path, strerror(errno));
  complete = fwrite(tensor->data, 1, tensor->bytes, file) == tensor->bytes;
  complete = fclose(file) == 0 && complete;
  return complete ? 1 : complain(path, "cannot be written");
}
"""


def example_text(api: Interface) -> str:
    """The program. It exits with 0, with 1 for a file it cannot use, with 2 when called wrongly."""
    return "\n".join([_opening(api), _HELPERS.lstrip("\n"), _buffers(api), _main(api)])


def _files(api: Interface) -> str:
    ins = [f"IN{i}.raw" for i in range(len(api.inputs))]
    return " ".join(ins + [f"OUT{i}.raw" for i in range(len(api.outputs))])


def _usage(api: Interface) -> str:
    """A model with state takes the files of several calls, one after the other."""
    return f"{_files(api)} [{_files(api)} ...]" if api.state_bytes else _files(api)


def _opening(api: Interface) -> str:
    return f"""\
/* Runs the model of {api.file}.h on files of raw little-endian tensors, in the order of the header:
 *
 *   example {_usage(api)}
 *
 * Build:  cc -std=c99 -O2 {api.file}_example.c {api.file}.o -o example
 */
#include "{api.file}.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
"""


def _buffers(api: Interface) -> str:
    lines = []
    for kind, number, _ in api.tensors:
        macro = f"{api.macro}_{kind}{number}"
        lines.append(f"static {macro}_TYPE {kind.lower()}{number}[{macro}_ELEMENTS];")
    m = api.macro
    room = f"static unsigned char arena_room[{m}_ARENA_BYTES + {m}_ARENA_ALIGNMENT];"
    lines += [
        "",
        "/* Room for an aligned arena somewhere inside: C99 has no word for alignment. */",
        room,
        "",
    ]
    for kind, group in (("INPUT", api.inputs), ("OUTPUT", api.outputs)):
        rows = []
        for number in range(len(group)):
            macro = f"{m}_{kind}{number}"
            rows.append(f"    {{{macro}_NAME, {kind.lower()}{number}, {macro}_BYTES}},")
        name = f"{kind.lower()}s"
        lines += [f"static const struct tensor {name}[{m}_{kind}S] = {{", *rows, "};"]
    return "\n".join(lines) + "\n"


def _main(api: Interface) -> str:
    m = api.macro
    return f"""\
int main(int argc, char **argv) {{
  const void *input_data[{m}_INPUTS];
  void *output_data[{m}_OUTPUTS];
  unsigned char *arena = arena_room;
  const int files = {m}_INPUTS + {m}_OUTPUTS;
  int i, status;

  if ({"argc < 2 || (argc - 1) % files != 0" if api.state_bytes else "argc != 1 + files"}) {{
    fprintf(stderr, "usage: example {_usage(api)}\\n");
    return 2;
  }}
  if ({api.prefix}_arena_size() != {m}_ARENA_BYTES) {{
    fprintf(stderr, "{api.file}.h and {api.file}.o are not of one build\\n");
    return 2;
  }}
  arena += ({m}_ARENA_ALIGNMENT - (uintptr_t)arena % {m}_ARENA_ALIGNMENT) % {m}_ARENA_ALIGNMENT;
{f"  {api.prefix}_reset(arena);" if api.state_bytes else ""}
  for (i = 0; i < {m}_INPUTS; ++i) input_data[i] = inputs[i].data;
  for (i = 0; i < {m}_OUTPUTS; ++i) output_data[i] = outputs[i].data;

  for (++argv; *argv != NULL; argv += files) {{
    for (i = 0; i < {m}_INPUTS; ++i) {{
      if (!read_tensor(argv[i], &inputs[i])) return 1;
    }}
    status = {api.prefix}_run(input_data, output_data, arena);
    if (status != {m}_OK) {{
      fprintf(stderr, "{api.prefix}_run returned %d; {api.file}.h says what that means\\n", status);
      return 1;
    }}
    for (i = 0; i < {m}_OUTPUTS; ++i) {{
      if (!write_tensor(argv[{m}_INPUTS + i], &outputs[i])) return 1;
    }}
  }}
  return 0;
}}
"""
