"""Reading one tensor of a TFLite file: shape, constant and quantization, each checked against the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qimport.frontend import catalogue
from qimport.frontend.flatbuffer import Table, layout
from qimport.frontend.model import ELEMENT_TYPES, Blocks, Quantization, Tensor
from qimport.frontend.options import name_of

TENSOR = layout(
    "shape type buffer name quantization is_variable sparsity shape_signature has_rank variant_tensors"
    " external_buffer"
)
QUANTIZATION = layout("min max scale zero_point details_type details quantized_dimension")

# TFLite's kernels count elements with a 32-bit int.
MAX_ELEMENTS = 2**31 - 1
# The most dimensions an array may have in every numpy that qimport runs on.
MAX_RANK = 32
# Characters of a tensor's name that a message shows.
MAX_LABEL = 80
BLOCKWISE = layout("scales zero_points block_size")
DETAILS = ("NONE", "CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization")


def read_tensor(table: Table, index: int, buffers: Sequence[memoryview | None]) -> Tensor:
    """Read tensor ``index``. Raises ``ModelError`` when its parts do not fit together."""
    name = table.string("name") or ""
    label = name if len(name) <= MAX_LABEL else f"{name[:MAX_LABEL]}..."
    dtype = name_of(table, "type", catalogue.TENSOR_TYPES, table.scalar("type", "int8", 0))
    shape = _read_shape(table, label)
    is_variable: bool = table.scalar("is_variable", "bool", False)
    is_sparse = table.locate("sparsity", 4) is not None
    raw = _read_constant(table, label, buffers)
    if raw is not None and is_variable:
        table.fail(
            "is_variable",
            f"tensor {label!r} is a variable but has constant data, expected one or the other;"
            " export the model again",
        )
    if raw is not None and not is_sparse:
        _check_size(table, label, dtype, shape, len(raw))
    return Tensor(
        index=index,
        name=name,
        shape=shape,
        shape_signature=_read_signature(table, label, shape),
        dtype=dtype,
        raw=raw,
        quantization=_read_quantization(table, label, shape),
        is_variable=is_variable,
        is_sparse=is_sparse,
        external_buffer=table.scalar("external_buffer", "uint32", 0),
    )


def _read_shape(table: Table, label: str) -> tuple[int, ...]:
    shape: tuple[int, ...] = table.numbers("shape", "int32") or ()
    if len(shape) > MAX_RANK:
        table.fail(
            "shape",
            f"tensor {label!r} has {len(shape)} dimensions, expected at most {MAX_RANK};"
            " the file is damaged: export it again",
        )
    if any(size < 0 for size in shape):
        table.fail(
            "shape",
            f"tensor {label!r} has the shape {list(shape)}, expected no negative size;"
            " open dimensions belong in shape_signature: export the model again",
        )
    if math.prod(max(size, 1) for size in shape) > MAX_ELEMENTS:
        table.fail(
            "shape",
            f"tensor {label!r} of shape {list(shape)} has more than {MAX_ELEMENTS} elements,"
            " which no TFLite kernel can count; the file is damaged: export it again",
        )
    return shape


def _read_signature(table: Table, label: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    signature: tuple[int, ...] = table.numbers("shape_signature", "int32") or shape
    if len(signature) != len(shape) or any(size < -1 for size in signature):
        table.fail(
            "shape_signature",
            f"tensor {label!r} has the signature {list(signature[:MAX_RANK])} for the shape"
            f" {list(shape)}, expected as many sizes, each -1 or more;"
            " export the model again",
        )
    return signature


def _read_constant(table: Table, label: str, buffers: Sequence[memoryview | None]) -> memoryview | None:
    buffer: int = table.scalar("buffer", "uint32", 0)
    if buffer == 0:  # by convention the empty buffer: the tensor is no constant, whatever buffer 0 holds
        return None
    if buffer >= len(buffers):
        table.fail(
            "buffer",
            f"tensor {label!r} refers to buffer {buffer}, expected one of the file's {len(buffers)};"
            " the file is damaged: export it again",
        )
    return buffers[buffer]


def _check_size(table: Table, label: str, dtype: str, shape: tuple[int, ...], found: int) -> None:
    bits = ELEMENT_TYPES[dtype].bits
    if bits is None:
        return
    expected = (math.prod(shape) * bits + 7) // 8
    if found != expected:
        table.fail(
            "buffer",
            f"the constant of tensor {label!r} has {found} bytes, expected {expected} for"
            f" {dtype}{list(shape)}; the file is damaged: export it again",
        )


def _read_quantization(table: Table, label: str, shape: tuple[int, ...]) -> Quantization | None:
    found = table.table("quantization", QUANTIZATION)
    if found is None:
        return None
    scales = found.array("scale", "float32")
    code: int = found.scalar("details_type", "uint8", 0)
    details = DETAILS[code] if code < len(DETAILS) else f"UNKNOWN_{code}"
    if (scales is None or not scales.size) and details == "NONE":
        return None
    scales = np.empty(0, np.float32) if scales is None else scales
    zero_points = found.array("zero_point", "int64")
    zero_points = np.empty(0, np.int64) if zero_points is None else zero_points
    axis: int = found.scalar("quantized_dimension", "int32", 0)
    if len(shape) == 1 and scales.size > 1:  # converters have written the weights' dimension beside the bias
        axis = 0
    if details == "NONE":
        _check_quantization(found, label, shape, scales, len(zero_points), axis)
    return Quantization(scales, zero_points, axis, details, _read_blocks(found, details))


def _read_blocks(table: Table, details: str) -> Blocks | None:
    found = table.table("details", BLOCKWISE) if details == "BlockwiseQuantization" else None
    if found is None:
        return None
    return Blocks(
        found.scalar("scales", "int32", 0),
        found.scalar("zero_points", "int32", 0),
        found.scalar("block_size", "int32", 0),
    )


def _check_quantization(
    table: Table,
    label: str,
    shape: tuple[int, ...],
    scales: npt.NDArray[np.float32],
    zero_points: int,
    axis: int,
) -> None:
    """Check that there is one usable scale, or one per index of the axis, and as many zero points.

    A scale of 0 passes: converters write it for constants that are zero throughout. Nor is the axis of a
    single scale looked at, which has no meaning.
    """
    usable = np.isfinite(scales) & (scales >= 0)
    if not usable.all():
        first = int(np.argmin(usable))
        table.fail(
            "scale",
            f"scale {first} of tensor {label!r} is {scales[first]}, expected a finite number, not below 0;"
            " convert the model again with a representative data set",
        )
    if zero_points != len(scales):
        table.fail(
            "zero_point",
            f"tensor {label!r} has {zero_points} zero points for {len(scales)} scales, expected as"
            " many; convert the model again",
        )
    if len(scales) == 1:
        return
    if not 0 <= axis < len(shape):
        table.fail(
            "quantized_dimension",
            f"tensor {label!r} of shape {list(shape)} is quantized along dimension {axis},"
            " expected one it has; convert the model again",
        )
    if len(scales) != shape[axis]:
        table.fail(
            "scale",
            f"tensor {label!r} of shape {list(shape)} has {len(scales)} scales, expected 1 or"
            f" {shape[axis]} along dimension {axis}; convert the model again",
        )
