"""Quantizing rows of floats on the fly: :mod:`qimport.qnn.row_quantization` as primitives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import prim
from qimport.ir.graph import Array, Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter
from qimport.lower.sign_excess import emit_sign_excess
from qimport.qnn.row_quantization import ROUNDING_BLOCK


@dataclass(frozen=True)
class Rows:
    """Codes int8 [rows, n], scales float32 [rows, 1]; zero points int32 [rows, 1], None where they are 0."""

    codes: Value
    scales: Value
    zeros: Value | None


def emit_row_quantization(emit: Emitter, x: Value, *, asymmetric: bool) -> Rows:
    """Quantize every row of x [rows, n]."""
    return _asymmetric(emit, x) if asymmetric else _symmetric(emit, x)


def emit_row_product(emit: Emitter, rows: Rows, weights: Array, weight_scales: Array) -> Value:
    """Times constant int8 weights [outputs, n], with one float32 scale or one per output."""
    count, depth = rows.codes.type.shape
    outputs = weights.shape[0]
    image = emit.reshape(rows.codes, (count, 1, 1, depth))
    kernel = emit.constant(weights.reshape(outputs, 1, 1, depth))
    mac = prim.Mac()
    operands = (image, kernel, emit.constant(np.zeros(outputs, np.int32)))
    acc = emit.reshape(emit.emit(mac, operands, mac.result_type(image.type, kernel.type)), (count, outputs))
    more = emit_sign_excess(emit, rows.codes, emit.constant(weights))
    if more is not None:
        acc = emit.binary("add", acc, more)
    if rows.zeros is not None:
        sums = emit.constant(weights.astype(np.int64).sum(1).astype(np.int32))
        acc = emit.binary("sub", acc, emit.binary("mul", rows.zeros, sums))
    scales = emit.binary("mul", rows.scales, emit.constant(np.asarray(weight_scales, np.float32)))
    return emit.binary("mul", emit.cast(acc, "float32"), scales)


def _symmetric(emit: Emitter, x: Value) -> Rows:
    largest = _extremum(emit, "max", emit.math("abs", x))
    empty = emit.compare("equal", largest, 0.0)
    safe = emit.select(empty, _number(emit, 127.0, largest), largest)
    inverse = emit.binary("div", _number(emit, 127.0, largest), safe)
    rounded = _rounded(emit, emit.binary("mul", x, inverse))
    scales = emit.binary("div", safe, 127.0)
    return Rows(emit.clamp(rounded, 0, -127, 127, "int8"), scales, None)


def _asymmetric(emit: Emitter, x: Value) -> Rows:
    low = emit.binary("min", _extremum(emit, "min", x), 0.0)
    high = emit.binary("max", _extremum(emit, "max", x), 0.0)
    empty = emit.compare("equal", low, high)
    span = emit.cast(emit.binary("sub", high, low), "float64")
    step = emit.binary("div", emit.select(empty, _number(emit, 255.0, span), span), 255.0)
    scales = emit.cast(step, "float32")
    zeros = _zero_points(emit, low, high, step, empty)
    inverse = emit.binary("div", _number(emit, 1.0, scales), scales)
    rounded = _rounded(emit, emit.binary("mul", x, inverse))
    shifted = emit.binary("add", rounded, zeros)
    return Rows(emit.clamp(shifted, 0, -128, 127, "int8"), scales, zeros)


def _zero_points(emit: Emitter, low: Value, high: Value, step: Value, empty: Value) -> Value:
    """int32, from the end of the range with the smaller sum of magnitudes; 0 for empty rows."""
    below, above = (emit.binary("div", emit.cast(end, "float64"), step) for end in (low, high))
    minus_below = emit.binary("sub", _number(emit, 0.0, below), below)  # |below|: low is never positive
    from_below = emit.compare(
        "less", emit.binary("add", minus_below, 128.0), emit.binary("add", above, 127.0)
    )
    chosen = emit.select(
        from_below,
        emit.binary("add", minus_below, -128.0),
        emit.binary("sub", _number(emit, 127.0, above), above),
    )
    exact = emit.select(empty, _number(emit, 0.0, chosen), chosen)
    nearest = emit.emit(prim.ToInt("away"), (exact,), TensorType("int32", exact.type.shape))
    return emit.clamp(nearest, 0, -128, 127, "int32")


def _rounded(emit: Emitter, v: Value) -> Value:
    """int32 [rows, n]: whole blocks by adding a half and cutting off, the rest half away from zero."""
    negative = emit.compare("less", v, 0.0)
    half = emit.select(negative, _number(emit, -0.5, v), _number(emit, 0.5, v))
    cut = emit.cast(emit.binary("add", v, half), "int32")
    count = v.type.shape[-1]
    rest = count % ROUNDING_BLOCK
    if rest == 0:
        return cut
    nearest = emit.emit(prim.ToInt("away"), (v,), cut.type)
    if rest == count:
        return nearest
    return emit.select(emit.constant(np.arange(count) < count - rest), cut, nearest)


def _extremum(emit: Emitter, kind: str, x: Value) -> Value:
    """[rows, 1]."""
    op = prim.Reduce("max" if kind == "max" else "min", (1,))
    return emit.emit(op, (x,), TensorType(x.type.dtype, (x.type.shape[0], 1)))


def _number(emit: Emitter, number: float, like: Value) -> Value:
    """A constant of one element with the element type of ``like``."""
    return emit.constant(np.array([number], like.type.numpy))
