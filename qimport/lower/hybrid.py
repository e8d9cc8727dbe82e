"""What the lowering rules of operations on float activations and int8 weights share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qimport import prim
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.float_weighted import emit_activation
from qimport.lower.rule import Emitter, Use
from qimport.qnn.dynamic_quantization import DynamicKind, block_of
from qimport.qnn.hybrid import HybridOperation, ScaleOrder


@dataclass(frozen=True)
class Rows:
    """Codes int8 [R, K], zero points int32 [R, 1] (None: all 0) and float32 scales [R, 1]."""

    codes: Value
    zero: Value | None
    scale: Value


def emit_rows(emit: Emitter, x: Value, kind: DynamicKind) -> Rows:
    """:func:`qimport.qnn.dynamic_quantization.quantize_rows` of x [R, K]."""
    low, high = (_extremum(emit, x, extremum) for extremum in ("min", "max"))
    if kind.startswith("symmetric"):
        return _symmetric(emit, x, low, high, block_of(kind, x.type.shape[1]))
    low, high = emit.binary("min", low, 0.0), emit.binary("max", high, 0.0)
    if kind.startswith("asymmetric"):
        return _asymmetric(emit, x, low, high, block_of(kind, x.type.shape[1]))
    return _delegate(emit, x, low, high, kind)


def _extremum(emit: Emitter, x: Value, kind: str) -> Value:
    op = prim.Reduce("min" if kind == "min" else "max", (1,))
    return emit.emit(op, (x,), TensorType("float32", (x.type.shape[0], 1)))


def _symmetric(emit: Emitter, x: Value, low: Value, high: Value, block: int) -> Rows:
    largest = emit.binary("max", high, emit.binary("sub", emit.constant(np.zeros(1, np.float32)), low))
    largest = _nonzero(emit, largest, 127.0)
    inverse = emit.binary("div", emit.constant(np.full(1, 127, np.float32)), largest)
    codes = emit.clamp(_rounded(emit, emit.binary("mul", x, inverse), block), 0, -127, 127, "int8")
    return Rows(codes, None, emit.binary("div", largest, 127.0))


def _asymmetric(emit: Emitter, x: Value, low: Value, high: Value, block: int) -> Rows:
    width = emit.binary("sub", high, low)
    step = emit.binary("div", emit.cast(_nonzero(emit, width, 255.0), "float64"), 255.0)
    below, above = (emit.binary("div", emit.cast(end, "float64"), step) for end in (low, high))
    error_low = emit.binary("sub", _number(emit, 128, np.float64), below)
    error_high = emit.binary("add", above, 127.0)
    from_low = emit.binary("sub", _number(emit, -128, np.float64), below)
    from_high = emit.binary("sub", _number(emit, 127, np.float64), above)
    zero = emit.select(emit.compare("less", error_low, error_high), from_low, from_high)
    rounded = emit.emit(prim.ToInt("away"), (zero,), TensorType("int32", zero.type.shape))
    none = emit.constant(np.zeros(rounded.type.shape, np.int32))
    rounded = emit.select(emit.compare("equal", width, 0.0), none, rounded)
    zero_point = emit.clamp(rounded, 0, -128, 127, "int32")
    scale = emit.cast(step, "float32")
    inverse = emit.binary("div", _number(emit, 1, np.float32), scale)
    codes = emit.binary("add", _rounded(emit, emit.binary("mul", x, inverse), block), zero_point)
    return Rows(emit.clamp(codes, 0, -128, 127, "int8"), zero_point, scale)


def _delegate(emit: Emitter, x: Value, low: Value, high: Value, kind: DynamicKind) -> Rows:
    span = _nonzero(emit, emit.binary("sub", high, low), 255.0)
    factor = emit.binary("div", _number(emit, 255, np.float32), span)

    def add(a: Value, c: float) -> Value:
        """a * factor + c."""
        if kind == "delegate":
            return emit.binary("add", emit.binary("mul", a, factor), c)
        return emit.fma(a, factor, emit.number(c, factor))

    errors = emit.binary("add", add(low, -128.0), add(high, 127.0))
    ends = (emit.binary("mul", low, -1.0), emit.binary("mul", high, -1.0))
    from_low, from_high = add(ends[0], -128.0), add(ends[1], 127.0)
    zero = emit.select(emit.compare("greater", errors, 0.0), from_low, from_high)
    zero = emit.binary("min", emit.binary("max", zero, -128.0), 127.0)
    to_int = prim.ToInt("even")
    zero_point = emit.emit(to_int, (zero,), TensorType("int32", zero.type.shape))
    scaled = emit.binary("mul", x, factor)
    if kind.endswith("away"):
        to_int = prim.ToInt("away", saturate=True, nan_to_zero=True)
    else:
        room = emit.cast(emit.binary("sub", _number(emit, 127, np.int32), zero_point), "float32")
        scaled = emit.binary("min", scaled, room)
    rounded = emit.emit(to_int, (scaled,), TensorType("int32", scaled.type.shape))
    codes = emit.clamp(emit.binary("add", rounded, zero_point), 0, -128, 127, "int8")
    return Rows(codes, zero_point, emit.binary("div", _number(emit, 1, np.float32), factor))


def _number(emit: Emitter, number: float, dtype: type[np.generic]) -> Value:
    return emit.constant(np.full(1, number, dtype))


def _nonzero(emit: Emitter, x: Value, instead: float) -> Value:
    """x, and ``instead`` where it is 0."""
    other = emit.constant(np.full(x.type.shape, instead, np.float32))
    return emit.select(emit.compare("equal", x, 0.0), other, x)


def _rounded(emit: Emitter, scaled: Value, size_of_block: int) -> Value:
    """int32: whole blocks of every row by adding one half, the rest of every row half away from zero."""
    rows, size = scaled.type.shape
    whole = size // size_of_block * size_of_block
    parts = []
    if whole:
        block = scaled if whole == size else emit.slice(scaled, (0, 0), (rows, whole), (1, 1))
        negative = emit.compare("less", block, 0.0)
        half = emit.select(negative, _number(emit, -0.5, np.float32), _number(emit, 0.5, np.float32))
        parts.append(emit.cast(emit.binary("add", block, half), "int32"))
    if whole < size:
        rest = scaled if whole == 0 else emit.slice(scaled, (0, whole), (rows, size - whole), (1, 1))
        parts.append(emit.emit(prim.ToInt("away"), (rest,), TensorType("int32", rest.type.shape)))
    return emit.concat(parts, 1)


def emit_hybrid(
    emit: Emitter,
    op: HybridOperation,
    use: Use,
    x: Value,
    w: Value,
    mac: prim.Mac,
    excess: Callable[[Rows], Value | None] | None = None,
) -> Value:
    """x NHWC quantized by rows, products with w OHWI, scales, bias and activation.

    ``excess`` gives what is added to the sums.
    """
    size = op.row_size(use.call)
    rows = emit_rows(emit, emit.reshape(x, (x.type.size // size, size)), op.row_kind(use.call))
    acc = emit_row_sums(emit, rows, x.type.shape, as_int8(emit, w), mac)
    more = excess(rows) if excess is not None else None
    if more is not None:
        acc = emit.binary("add", acc, more)
    per_row = (acc.type.shape[0], *_pixels(rows, acc), 1)
    scale = emit.reshape(rows.scale, per_row)
    bias = use.operands[2] if len(use.operands) > 2 else None
    if bias is None:
        bias = emit.constant(np.zeros(1, np.float32))
    scales = np.array(use.call.input(1).quant.scales, np.float32)
    result = _scaled(emit, op.scale_orders(use.call), emit.cast(acc, "float32"), scale, scales, bias)
    return emit_activation(emit, result, op.activation, op.kernel_family(use.call))


def as_int8(emit: Emitter, w: Value) -> Value:
    """Constant int4 weights as int8."""
    if w.type.dtype != "int4" or w.data is None:
        return w
    return emit.constant(w.data.astype(np.int8), w.name)


def _pixels(rows: Rows, acc: Value) -> tuple[int, int]:
    """Height and width of what has a scale of its own: a pixel each, or 1 by 1."""
    batch, height, width, _ = acc.type.shape
    return (height, width) if rows.codes.type.shape[0] == batch * height * width else (1, 1)


def emit_row_sums(emit: Emitter, rows: Rows, shape: tuple[int, ...], w: Value, mac: prim.Mac) -> Value:
    """int32 sums of codes without zero points, seen as NHWC of ``shape``, times weights.

    Without padding the zero point is taken off the sums; with padding off the codes, which then need 16 bits.
    """
    no_bias = emit.constant(np.zeros(w.type.shape[0], np.int32))
    codes = emit.reshape(rows.codes, shape)
    if rows.zero is None:
        return emit.emit(mac, (codes, w, no_bias), mac.result_type(codes.type, w.type))
    if mac.padding == ((0, 0), (0, 0)) and w.data is not None:
        acc = emit.emit(mac, (codes, w, no_bias), mac.result_type(codes.type, w.type))
        totals = wrap32(w.data.astype(np.int64).sum((1, 2, 3))).astype(np.int32)
        zero = emit.reshape(rows.zero, (acc.type.shape[0], *_pixels(rows, acc), 1))
        return emit.binary("sub", acc, emit.binary("mul", zero, emit.constant(totals)))
    wide = emit.binary("sub", emit.cast(rows.codes, "int32"), rows.zero)
    codes = emit.reshape(emit.cast(wide, "int16"), shape)
    return emit.emit(mac, (codes, w, no_bias), mac.result_type(codes.type, w.type))


def _scaled(
    emit: Emitter,
    orders: tuple[ScaleOrder, ScaleOrder | None, int],
    acc: Value,
    s_x: Value,
    s_w: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    bias: Value,
) -> Value:
    """The sums as floats: see :data:`qimport.qnn.hybrid.ScaleOrder`."""
    order, leftover, first = orders
    channels = acc.type.shape[3]
    if leftover is None or first in (0, channels):
        return apply_scales(emit, order if leftover is None or first else leftover, acc, s_x, s_w, bias)
    whole = np.broadcast_to(s_w, channels)
    both = (apply_scales(emit, each, acc, s_x, whole, bias) for each in (order, leftover))
    mask = emit.constant(np.arange(channels) < first)
    return emit.select(mask, *both)


def apply_scales(
    emit: Emitter,
    order: ScaleOrder,
    acc: Value,
    s_x: Value,
    s_w: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    bias: Value | None = None,
) -> Value:
    """Float sums times both scales, plus the bias if there is one; the fused orders need one."""
    weights = emit.constant(np.ascontiguousarray(s_w))
    if order == "fused" and bias is not None:
        return emit.emit(prim.Fma(), (emit.binary("mul", acc, s_x), weights, bias), acc.type)
    if order == "together_fused" and bias is not None:
        return emit.fma(acc, emit.binary("mul", s_x, weights), bias)
    if order == "together":
        scaled = emit.binary("mul", acc, emit.binary("mul", s_x, weights))
    elif order == "weights_first":
        scaled = emit.binary("mul", emit.binary("mul", acc, weights), s_x)
    else:
        scaled = emit.binary("mul", emit.binary("mul", acc, s_x), weights)
    return scaled if bias is None else emit.binary("add", scaled, bias)
