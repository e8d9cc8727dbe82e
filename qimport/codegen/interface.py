"""What the C side of a compiled model depends on, and how names, texts and numbers are written in C."""

from __future__ import annotations

import re
import unicodedata
import zlib
from dataclasses import dataclass
from typing import Any, Protocol

from qimport.codegen.target import Target
from qimport.numerics import Numerics

API_VERSION = 1
"""Of the functions and macros of headers: grows when one is taken away or changes its meaning."""

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

TYPE_NUMBERS: dict[str, int] = {
    "float32": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "complex64": 8,
    "int8": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 16,
}
"""The numbers of TfLiteType, for tables of tensors."""

RESULTS: tuple[tuple[str, str], ...] = (
    ("OK", "no error"),
    ("ERROR_INPUT", "inputs is NULL or not aligned, or one of its pointers is NULL"),
    ("ERROR_OUTPUT", "outputs is NULL or not aligned, or one of its pointers is NULL"),
    ("ERROR_ARENA", "arena is NULL or not aligned"),
    ("ERROR_TILES", "the operating system does not let this process use AMX tiles"),
    ("ERROR_WEIGHTS", "weights is NULL, not aligned, or not what belongs to the object"),
)
"""What functions return: the position in this table. After an error nothing was written."""

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

    @property
    def axis(self) -> int | None:
        """The dimension that several scales belong to."""


@dataclass(frozen=True)
class Weights:
    """The file of constants that an object does not hold: its size and checksum."""

    nbytes: int
    crc32: int

    @classmethod
    def of(cls, content: bytes) -> Weights:
        """What belongs to this content."""
        return cls(len(content), zlib.crc32(content))


@dataclass(frozen=True)
class Interface:
    """All that the C side of a compiled model depends on.

    ``name`` is the model's own name, for readers; ``file`` the files' name without ending; ``prefix`` begins
    every symbol and, in capitals, every macro. ``threads`` is how many a call can use. ``weights`` is None
    where the object holds them; ``digest`` is the SHA-256 of the .tflite file in hexadecimal. ``levels`` are
    the targets, ``target`` first, of an object that chooses one at run-time.
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
    weights: Weights | None = None
    digest: str = ""
    levels: tuple[Target, ...] = ()

    @property
    def macro(self) -> str:
        """What every macro begins with."""
        return self.prefix.upper()

    @property
    def has_reset(self) -> bool:
        """Whether an arena must be prepared before the first call."""
        return self.state_bytes > 0 or bool(self.levels)

    @property
    def needs_tile_permission(self) -> bool:
        """Whether calls may ask Linux for AMX tiles."""
        return any(target.needs_tile_permission for target in self.levels or (self.target,))

    @property
    def results(self) -> list[tuple[str, str]]:
        """:data:`RESULTS` as this model means them."""
        words = {"ERROR_ARENA": "arena is NULL, not aligned or not reset"} if self.levels else {}
        return [(name, words.get(name, text)) for name, text in RESULTS]

    @property
    def functions(self) -> list[str]:
        """The symbols that other objects see."""
        optional = {
            "run_parallel": self.threads > 1,
            "reset": self.has_reset,
            "level": bool(self.levels),
            "weights_size": self.weights is not None,
            "check_weights": self.weights is not None,
        }
        names = ["run", "arena_size", *(name for name, there in optional.items() if there)]
        return [f"{self.prefix}_{name}" for name in names]

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
