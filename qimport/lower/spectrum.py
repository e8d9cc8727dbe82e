"""RFFT2D, COMPLEX_ABS, REAL and IMAG: complex numbers as pairs of floats."""

from __future__ import annotations

import math

from qimport import fourier, prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.spectrum import ComplexAbs, Imag, Real, Rfft2d

ROWS = 8
"""Rows that are transformed together."""


@rule(Rfft2d)
def lower_rfft2d(emit: Emitter, op: Rfft2d, use: Use) -> Value:
    """Some images at a time: transforms are computed in pairs of float64, which take much memory."""
    x = _fitted(emit, use.operand(0), op.height, op.width)
    images, size = x.type.shape[0], x.type.shape[1:]
    together = max(1, ROWS // op.height)
    parts = [
        _transformed(
            emit, op, emit.slice(x, (first, 0, 0), (min(together, images - first), *size), (1, 1, 1))
        )
        for first in range(0, images, together)
    ]
    whole = emit.reshape(emit.concat(parts, 0), (*use.output.shape, 2))
    return emit.emit(prim.Bitcast(), (whole,), use.output)


def _transformed(emit: Emitter, op: Rfft2d, x: Value) -> Value:
    """Rows of pairs, transformed; then columns, for which the image is turned."""
    images, kept = x.type.shape[0], op.width // 2 + 1
    single = emit.reshape(emit.cast(x, "float64"), (images * op.height, op.width, 1))
    rows = _fft(emit, emit.pad(single, (0, 0, 0), (0, 0, 1), 0.0))
    pairs = emit.slice(rows, (0, 0, 0), (images * op.height, kept, 2), (1, 1, 1))
    if op.height > 1:
        turned = emit.transpose(emit.reshape(pairs, (images, op.height, kept, 2)), (0, 2, 1, 3))
        columns = _fft(emit, emit.reshape(turned, (images * kept, op.height, 2)))
        pairs = emit.transpose(emit.reshape(columns, turned.type.shape), (0, 2, 1, 3))
    signs = emit.constant(fourier.CONJUGATE)
    narrow = emit.cast(emit.binary("mul", pairs, signs), "float32")
    return emit.reshape(narrow, (images, op.height, kept, 2))


def _fitted(emit: Emitter, x: Value, height: int, width: int) -> Value:
    """[images, height, width], cut or filled with zeros."""
    *batch, rows, columns = x.type.shape
    x = emit.reshape(x, (math.prod(batch), rows, columns))
    shape = (x.type.shape[0], min(rows, height), min(columns, width))
    if shape != x.type.shape:
        x = emit.slice(x, (0, 0, 0), shape, (1, 1, 1))
    missing = (0, height - shape[1], width - shape[2])
    return emit.pad(x, (0, 0, 0), missing, 0.0) if any(missing) else x


def _fft(emit: Emitter, rows: Value) -> Value:
    count = rows.type.shape[1]
    roots = emit.constant(fourier.roots(count))
    for span in fourier.spans(count):
        rows = emit.emit(prim.Fft(span), (rows, roots), rows.type)
    return rows


def _part(emit: Emitter, x: Value, which: int) -> Value:
    shape = x.type.shape
    pairs = emit.emit(prim.Bitcast(), (x,), TensorType("float32", (*shape, 2)))
    begin, ones = [0] * len(shape) + [which], [1] * (len(shape) + 1)
    return emit.reshape(emit.slice(pairs, begin, (*shape, 1), ones), shape)


@rule(Real)
def lower_real(emit: Emitter, _op: Real, use: Use) -> Value:
    """The first of every pair."""
    return _part(emit, use.operand(0), 0)


@rule(Imag)
def lower_imag(emit: Emitter, _op: Imag, use: Use) -> Value:
    """The second of every pair."""
    return _part(emit, use.operand(0), 1)


@rule(ComplexAbs)
def lower_complex_abs(emit: Emitter, _op: ComplexAbs, use: Use) -> Value:
    """A root in float64; infinity where a part is infinite."""
    parts = [emit.math("abs", _part(emit, use.operand(0), which)) for which in (0, 1)]
    wide = [emit.cast(part, "float64") for part in parts]
    squares = [emit.binary("mul", part, part) for part in wide]
    root = emit.math("sqrt", emit.binary("add", *squares))
    size = emit.cast(root, "float32")
    for part in parts:
        infinite = emit.compare("equal", part, math.inf)
        size = emit.select(infinite, part, size)
    return size
