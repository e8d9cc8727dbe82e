"""What a TFLite file says, as frozen records: names, shapes, scales and options exactly as written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

IDENTIFIER = b"TFL3"
HEAD_BYTES = 8
"""A file begins with an offset of four bytes and the identifier."""

MAX_TENSOR_BYTES = 2**31 - 1
"""Larger tensors are refused before anything is allocated; offsets in generated code are 32 bits."""


@dataclass(frozen=True)
class ElementType:
    """How the elements of a tensor lie in the file: ``bits`` each, packed from the low end of a byte.

    ``bits`` is None for types whose size the shape does not tell (strings, resources). ``codes`` is the
    numpy type of ``Tensor.data``; types numpy lacks are held as their bit patterns.
    """

    name: str
    bits: int | None
    codes: str
    signed: bool = False


ELEMENT_TYPES: Mapping[str, ElementType] = {
    kind.name: kind
    for kind in (
        *(
            ElementType(name, 8 * np.dtype(name).itemsize, name)
            for name in (
                "bool",
                "int8",
                "uint8",
                "int16",
                "uint16",
                "int32",
                "uint32",
                "int64",
                "uint64",
                "float16",
                "float32",
                "float64",
                "complex64",
                "complex128",
            )
        ),
        ElementType("int4", 4, "int8", signed=True),
        ElementType("uint4", 4, "uint8"),
        ElementType("int2", 2, "int8", signed=True),
        ElementType("bfloat16", 16, "uint16"),
        ElementType("float8_e4m3fn", 8, "uint8"),
        ElementType("float8_e5m2", 8, "uint8"),
        ElementType("string", None, "uint8"),
        ElementType("resource", None, "uint8"),
        ElementType("variant", None, "uint8"),
    )
}


@dataclass(frozen=True)
class Blocks:
    """A scale per block of neighbours: the tensors of scales and zero points (-1: none), and a size."""

    scales: int
    zero_points: int
    size: int


@dataclass(frozen=True, eq=False)
class Quantization:
    """Affine quantization: real = scale * (code - zero_point), one pair or one per index of ``axis``.

    ``scales`` is float32[n], finite and not negative (0 occurs, on constants that are zero throughout);
    ``zero_points`` is int64[n], of any value. ``axis`` means nothing when n is 1 and is then unchecked.
    ``details`` names the scheme that replaces the scales (``BlockwiseQuantization``, ...), "NONE" for the
    plain one; ``blocks`` is what ``BlockwiseQuantization`` says.
    """

    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.int64]
    axis: int
    details: str = "NONE"
    blocks: Blocks | None = None


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor. ``shape_signature`` equals ``shape`` but for -1 at the dimensions that may change.

    ``raw`` is the constant's bytes as they lie in the file, None when the tensor is no constant.
    ``is_sparse`` marks a constant in a sparse layout, ``external_buffer`` (> 0) one that lies in another
    file.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...]
    dtype: str
    raw: memoryview | None
    quantization: Quantization | None
    is_variable: bool
    is_sparse: bool = False
    external_buffer: int = 0

    @cached_property
    def data(self) -> npt.NDArray[Any] | None:
        """The constant as a read-only array of ``shape``, a view of the file where elements are whole bytes.

        int4 and int2 come unpacked as int8, uint4 as uint8; strings and resources as their flat bytes.
        None when the tensor holds no constant or a sparse one.
        """
        if self.raw is None or self.is_sparse:
            return None
        kind = ELEMENT_TYPES[self.dtype]
        if kind.bits is None:
            return np.frombuffer(self.raw, np.uint8)
        if kind.bits >= 8:
            return np.frombuffer(self.raw, np.dtype(kind.codes).newbyteorder("<")).reshape(self.shape)
        result = _unpack(np.frombuffer(self.raw, np.uint8), math.prod(self.shape), kind).reshape(self.shape)
        result.flags.writeable = False
        return result


def _unpack(packed: npt.NDArray[np.uint8], count: int, kind: ElementType) -> npt.NDArray[Any]:
    """Return ``count`` elements of fewer than 8 bits, the first from the low bits of the first byte."""
    bits = kind.bits or 8
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes: npt.NDArray[Any] = ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    if not kind.signed:
        return codes
    sign = np.int8(1 << (bits - 1))
    result: npt.NDArray[Any] = (codes.view(np.int8) ^ sign) - sign
    return result


@dataclass(frozen=True)
class Operator:
    """One operator; ``builtin`` is its name ("CONV_2D"), "CUSTOM", or "UNKNOWN_<code>" for a newer one.

    ``inputs`` and ``intermediates`` hold tensor indices, -1 for an operand left out; ``outputs`` tensor
    indices. ``options`` maps the fields of the option table to Python values, enumerations to their names.
    """

    index: int
    builtin: str
    custom_code: str | None
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    custom_options: memoryview | None = None
    intermediates: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The name in messages: that of a custom operator stands behind ``CUSTOM``."""
        return f"CUSTOM {self.custom_code}" if self.builtin == "CUSTOM" else self.builtin


@dataclass(frozen=True)
class SubGraph:
    """A graph of operators over tensors; ``inputs`` and ``outputs`` are tensor indices."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class OperatorCode:
    """An entry of the table the operators refer to; ``builtin`` as in ``Operator``."""

    builtin: str
    custom_code: str | None
    version: int


@dataclass(frozen=True)
class Signature:
    """A named way to call a subgraph: argument name -> tensor index."""

    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int


@dataclass(frozen=True)
class Model:
    """A whole file. ``buffers`` and ``metadata`` are views of its bytes, None where a buffer has no data."""

    version: int
    description: str
    operator_codes: tuple[OperatorCode, ...]
    subgraphs: tuple[SubGraph, ...]
    buffers: tuple[memoryview | None, ...]
    signatures: tuple[Signature, ...]
    metadata: Mapping[str, memoryview | None]
