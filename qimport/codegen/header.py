"""The C header of a compiled model: documented functions, and macros that say all about its tensors."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qimport.codegen.target import Target
from qimport.ir.graph import Numerics
from qimport.version import INTERPRETER, VERSION

RESOLVERS: dict[Numerics, str] = {
    "reference": "reference kernels (OpResolverType.BUILTIN_REF)",
    "builtin": "built-in kernels without delegate (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)",
    "xnnpack": "default configuration, the XNNPACK delegate (OpResolverType.AUTO)",
}
"""What the interpreter of each numerics mode runs."""

C_TYPES: dict[str, tuple[str, str]] = {
    "bool": ("uint8_t", "one byte, 0 or 1"),
    "int8": ("int8_t", "8 bits, signed"),
    "uint8": ("uint8_t", "8 bits, unsigned"),
    "int16": ("int16_t", "16 bits, signed"),
    "int32": ("int32_t", "32 bits, signed"),
    "uint32": ("uint32_t", "32 bits, unsigned"),
    "int64": ("int64_t", "64 bits, signed"),
    "float16": ("uint16_t", "the bits of an IEEE binary16"),
    "float32": ("float", "IEEE binary32"),
    "float64": ("double", "IEEE binary64"),
    "complex64": ("uint64_t", "the bits of two IEEE binary32, the real part in the lower half"),
}
"""C type of every element type, and what its bits mean."""

RESULTS: tuple[tuple[str, str], ...] = (
    ("OK", "the outputs are written"),
    ("ERROR_INPUT", "inputs or one of its pointers is NULL"),
    ("ERROR_OUTPUT", "outputs or one of its pointers is NULL"),
    ("ERROR_ARENA", "arena is NULL or not aligned"),
    ("ERROR_TILES", "the operating system does not let this process use AMX tiles"),
)
"""What NAME_run returns: the position in this table. On an error nothing was read or written."""

LONGEST_NAME = 500
"""Bytes of a tensor's name that a header repeats: C99 compilers need not take long string literals."""

_SAFE = re.compile(rb"[^A-Za-z0-9 _.,:;/+=()\[\]{}<>#@!$&|~^`'-]")


class TensorInfo(Protocol):
    """An input or output of a model. ``scales`` is empty where the tensor is not quantized."""

    @property
    def name(self) -> str:
        """Name in the file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, all known."""

    @property
    def dtype(self) -> Any:
        """Anything ``numpy.dtype`` accepts."""

    @property
    def scales(self) -> tuple[float, ...]:
        """One float32 value, or one per channel."""

    @property
    def zero_points(self) -> tuple[int, ...]:
        """As many as scales."""


@dataclass(frozen=True)
class Interface:
    """All that the C side of a compiled model depends on.

    ``name`` is the model's own name, for readers; ``file`` the files' name without ending; ``prefix`` begins
    every symbol and, in capitals, every macro. ``threads`` is how many a call can use.
    """

    name: str
    file: str
    prefix: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    arena_bytes: int
    arena_alignment: int
    target: Target
    numerics: Numerics
    state_bytes: int = 0
    threads: int = 1

    @property
    def macro(self) -> str:
        """What every macro begins with."""
        return self.prefix.upper()

    @property
    def tensors(self) -> list[tuple[str, int, TensorInfo]]:
        """("INPUT" or "OUTPUT", number, tensor), inputs first."""
        families = (("INPUT", self.inputs), ("OUTPUT", self.outputs))
        return [(kind, number, tensor) for kind, group in families for number, tensor in enumerate(group)]


def c_identifier(name: str) -> str:
    """A C identifier as near to ``name`` as possible: ASCII, and none of the names C reserves for itself."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    text = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")
    if not text:
        return "model"
    return f"model_{text}" if text[0].isdigit() else text


def c_text(text: str) -> str:
    """``text`` as the inside of a C string literal that is harmless in a comment, too; cut if very long."""

    def octal(match: re.Match[bytes]) -> bytes:
        return b"\\%03o" % match[0][0]

    return _SAFE.sub(octal, text.encode("utf-8", "surrogatepass")[:LONGEST_NAME]).decode()


def c_float(value: float) -> str:
    """A float literal that reads back as the same float32, in C and C++."""
    text = f"{value:.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


@functools.cache
def header_text(api: Interface) -> str:
    """The whole header: C99, and C++ may include it."""
    guard = f"QIMPORT_{api.macro}_H"
    parts = [
        _opening(api),
        f"#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        _origin_macros(api),
        _result_macros(api),
        _arena_macros(api),
        *(_tensor_macros(api, *tensor) for tensor in api.tensors),
        _functions(api),
        f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n",
    ]
    return "\n".join(parts)


def _opening(api: Interface) -> str:
    return f"""\
/* {api.file}.h: the model "{c_text(api.name)}" as a C function.
 *
 * Generated by qimport {VERSION}; do not edit.
 *
 * The object file needs nothing but memcpy, memset and memmove, allocates nothing, opens nothing and keeps
 * nothing: {_memory(api)}
 * Tensors are dense, row-major and little-endian; images are NHWC.
 *
 * The outputs are byte for byte those of the TFLite interpreter ({INTERPRETER}, x86-64) with its
 * {RESOLVERS[api.numerics]}.
 */
"""


def _memory(api: Interface) -> str:
    if api.state_bytes:
        return "what the model remembers from call to call lies in the caller's arena."
    return "a call leaves no trace."


def _define(api: Interface, name: str, value: str | int) -> str:
    return f"#define {api.macro}_{name} {value}\n"


def _origin_macros(api: Interface) -> str:
    target = api.target
    features = ",".join(sorted(target.features))
    return (
        "/* What made this file, and for which processor, which must have TARGET_FEATURES. */\n"
        + _define(api, "QIMPORT_VERSION", f'"{VERSION}"')
        + _define(api, "NUMERICS", f'"{api.numerics}"')
        + _define(api, "TARGET", f'"{c_text(target.name)}"')
        + _define(api, "TARGET_TRIPLE", f'"{target.triple}"')
        + _define(api, "TARGET_FEATURES", f'"{features}"')
    )


def _result_macros(api: Interface) -> str:
    lines = (f"#define {api.macro}_{name} {code} /* {text} */\n" for code, (name, text) in enumerate(RESULTS))
    return f"/* What {api.prefix}_run returns. After an error no output was written. */\n" + "".join(lines)


def _arena_macros(api: Interface) -> str:
    return (
        "/* Memory of a call: bytes, and what its address must be a multiple of."
        " NULL is fine for 0 bytes. */\n"
        + _define(api, "ARENA_BYTES", api.arena_bytes)
        + _define(api, "ARENA_ALIGNMENT", api.arena_alignment)
        + _state_macro(api)
        + "\n/* How many tensors. */\n"
        + _define(api, "INPUTS", len(api.inputs))
        + _define(api, "OUTPUTS", len(api.outputs))
    )


def _state_macro(api: Interface) -> str:
    if not api.state_bytes:
        return ""
    note = "\n/* How much of the arena, from its begin on, the model remembers from call to call. */\n"
    return note + _define(api, "STATE_BYTES", api.state_bytes)


def _tensor_macros(api: Interface, kind: str, number: int, tensor: TensorInfo) -> str:
    dtype = np.dtype(tensor.dtype)
    c_type, meaning = C_TYPES[dtype.name]
    elements = math.prod(tensor.shape)
    dims = f"{{{', '.join(map(str, tensor.shape))}}}" if tensor.shape else "{1}"
    facts: dict[str, str | int] = {
        "NAME": f'"{c_text(tensor.name)}"',
        "TYPE": c_type,
        "RANK": len(tensor.shape),
        "DIMS": dims,
        "ELEMENTS": elements,
        "BYTES": elements * dtype.itemsize,
        **_quantization(tensor.scales, tensor.zero_points),
    }
    shape = "x".join(map(str, tensor.shape)) or "a scalar, DIMS has no meaning"
    note = _quantization_note(tensor.scales)
    lines = (_define(api, f"{kind}{number}_{name}", value) for name, value in facts.items())
    return f"/* {kind.capitalize()} {number}: {shape}, {meaning}{note}. */\n" + "".join(lines)


def _quantization(scales: Sequence[float], zero_points: Sequence[int]) -> dict[str, str]:
    if not scales:
        return {}
    if len(scales) == 1:
        return {"SCALE": c_float(scales[0]), "ZERO_POINT": f"({zero_points[0]})"}
    return {
        "SCALES": f"{{{', '.join(map(c_float, scales))}}}",
        "ZERO_POINTS": f"{{{', '.join(map(str, zero_points))}}}",
    }


def _quantization_note(scales: Sequence[float]) -> str:
    if not scales:
        return "; not quantized"
    if len(scales) == 1:
        return "; real value = SCALE * (code - ZERO_POINT)"
    return "; a scale per channel: real value = SCALES[c] * (code - ZERO_POINTS[c])"


def _functions(api: Interface) -> str:
    p, m = api.prefix, api.macro
    return f"""\
/* Runs the model once; returns {m}_OK or one of the errors. (Macros below without {m}_.)
 *
 * inputs   INPUTS pointers to INPUTi_BYTES bytes each, which are only read. Any alignment.
 * outputs  OUTPUTS pointers to OUTPUTi_BYTES bytes each, which are wholly written. Any alignment.
 * arena    ARENA_BYTES bytes at a multiple of ARENA_ALIGNMENT, {_ARENA[bool(api.state_bytes)]}
 *
 * The buffers must not overlap. {_CALLS[bool(api.state_bytes)]}
{_TILES if api.target.needs_tile_permission else ""} */
int {p}_run(const void *const *inputs, void *const *outputs, void *arena);

/* {m}_ARENA_BYTES as the object file knows it: unequal if object and header are not of one build. */
size_t {p}_arena_size(void);
{_parallel(api)}{_reset(api)}"""


def _parallel(api: Interface) -> str:
    """What models for several threads have besides."""
    if api.threads == 1:
        return ""
    p, m = api.prefix, api.macro
    return f"""
/* At how many threads the work of a call is aimed. */
#define {m}_THREADS {api.threads}

/* One part of the work: returns when it is done. It never waits for another part. */
typedef void (*{p}_task)(void *context, size_t index);

/* Must call task(context, i) once for every i < count and return when all these calls have returned. They may
 * run in any order, on any threads, at the same time. pool is what {p}_run_parallel was given. */
typedef void (*{p}_parallel_for)(void *pool, {p}_task task, void *context, size_t count);

/* {p}_run on the caller's threads: calls parallel_for, once for each heavy layer, with at most THREADS parts.
 * The outputs are the same bytes. If parallel_for is NULL, everything runs on the calling thread. */
int {p}_run_parallel(const void *const *inputs, void *const *outputs, void *arena,
{" " * len(f"int {p}_run_parallel(")}{p}_parallel_for parallel_for, void *pool);
"""


def _reset(api: Interface) -> str:
    """What models with state have besides."""
    if not api.state_bytes:
        return ""
    return f"""
/* Lets the model forget all calls: writes the first STATE_BYTES bytes of the arena. Returns {api.macro}_OK or
 * {api.macro}_ERROR_ARENA. Must be called before the first {api.prefix}_run, and again wherever a new stream
 * of inputs begins. To go on later, keep these bytes; each of several streams has an arena of its own. */
int {api.prefix}_reset(void *arena);
"""


_ARENA = (
    "with any content.",
    "whose first STATE_BYTES bytes hold what reset\n"
    " *          and the calls before have written; the rest may hold anything.",
)
_CALLS = (
    "Nothing is kept between calls; threads may call at the same time, each with\n"
    " * its own outputs and arena.",
    "Calls of one stream need the same arena, one after the other; threads\n"
    " * may call at the same time, each with its own outputs and arena.",
)
"""Without and with state."""


_TILES = """\
 *
 * The code uses AMX tiles: every call first asks Linux for them, which grants them to the whole process.
"""
