"""Arithmetic, relations, choice, conversion, reductions."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import INTEGER_RANGE, TensorType
from tests.mixed_graphs.model import ALL, CODES, INTEGERS, LARGEST_FED, MixedModel, old_step, step
from tests.random_models import DoesNotFit, RandomModel, Tensor
from tests.single_op import quantized


@step("float32", weight=5)
@step(*INTEGERS, weight=3)
def plain_arithmetic(g: MixedModel, x: Tensor) -> None:
    """ADD, SUB, MUL, of floats also SQUARED_DIFFERENCE, with a fused activation."""
    name = g.draw.pick("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE")
    y = g.other(x)
    a, b = (x, y) if g.draw.pick(True, False) else (y, x)
    limits = g.limit(x), g.limit(y)
    limit = {"MUL": limits[0] * limits[1], "SQUARED_DIFFERENCE": sum(limits) ** 2}.get(name, sum(limits))
    if name == "SQUARED_DIFFERENCE":
        if x.type.dtype == "int64":
            raise DoesNotFit
        g.emit(name, (a, b), x.type, limit=limit)
        return
    activation = g.activation() if x.type.dtype == "float32" else "NONE"
    g.emit(name, (a, b), x.type, limit=limit, fused_activation_function=activation)


@step("int16", weight=3)
def arithmetic16(g: MixedModel, x: Tensor) -> None:
    """ADD, SUB, MUL on int16 codes."""
    name, y = g.draw.pick("ADD", "SUB", "MUL"), g.other(x)
    a, b = (x, y) if g.draw.pick(True, False) else (y, x)
    scales = x.type.quant.scale, y.type.quant.scale
    usual = scales[0] * scales[1] * 20000 if name == "MUL" else max(scales)
    scale = g.draw.near(usual * float(g.draw.rng.uniform(0.7, 2)))
    options = {} if name == "MUL" else {"pot_scale_int16": False}
    out = quantized("int16", x.type.shape, scale, 0)
    g.emit(name, (a, b), out, fused_activation_function=g.activation(), **options)


@step("float32")
def quotient(g: MixedModel, x: Tensor) -> None:
    """DIV by a constant away from zero."""
    data = g.draw.rng.uniform(0.5, 3, x.type.shape[-1:]) * g.draw.rng.choice([-1, 1], x.type.shape[-1:])
    divisor = g.model.tensor(data.shape, "float32", data=data.astype(np.float32))
    g.emit(
        "DIV",
        (x, divisor),
        x.type,
        limit=2 * g.limit(x),
        fused_activation_function=g.draw.pick("NONE", "RELU"),
    )


@step(*INTEGERS)
def floored(g: MixedModel, x: Tensor) -> None:
    """FLOOR_DIV and FLOOR_MOD by a constant above zero."""
    data = g.draw.rng.integers(1, g.draw.pick(3, 100, 2**31), x.type.shape[-1:]).astype(x.type.numpy)
    divisor = g.model.tensor(data.shape, x.type.dtype, data=data)
    names = ("FLOOR_DIV", "FLOOR_MOD") if x.type.dtype == "int32" else ("FLOOR_MOD",)
    g.emit(g.draw.pick(*names), (x, divisor), x.type)


@step(*CODES, *INTEGERS, "float32")
def extremum(g: MixedModel, x: Tensor) -> None:
    """MAXIMUM, MINIMUM."""
    y = g.alike(x) if x.type.dtype in CODES else g.other(x)
    g.emit(g.draw.pick("MAXIMUM", "MINIMUM"), (x, y), x.type)


@step("float32", weight=4)
def float_function(g: MixedModel, x: Tensor) -> None:
    """Functions of floats that are exact."""
    name = g.draw.pick(
        "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "NEG", "ABS", "FLOOR", "SQUARE",
        "LEAKY_RELU", "PRELU", "HARD_SWISH",
    )  # fmt: skip
    limit = g.limit(x)
    if name == "LEAKY_RELU":
        g.emit(name, [x], x.type, alpha=g.draw.pick(0.1, 0.3, 0.0))
    elif name == "PRELU":
        g.axis(x)
        slopes = g.constant(TensorType("float32", (*(1 for _ in x.type.shape[1:-1]), x.type.shape[-1])))
        g.emit(name, [x, slopes], x.type, limit=limit * LARGEST_FED)
    else:
        g.emit(name, [x], x.type, limit=limit**2 if name == "SQUARE" else 2 * limit)


@step("int16")
def function16(g: MixedModel, x: Tensor) -> None:
    """LOGISTIC, TANH, SOFTMAX and piecewise linear functions on int16 codes."""
    name = g.draw.pick(
        "LOGISTIC", "TANH", "SOFTMAX", "RELU", "RELU6", "LEAKY_RELU", "ABS", "NEG", "HARD_SWISH"
    )
    shape = x.type.shape
    if name in ("LOGISTIC", "TANH", "SOFTMAX"):
        options = {"beta": g.draw.pick(1.0, 0.5)} if name == "SOFTMAX" else {}
        g.emit(name, [x], quantized("int16", shape, 2.0**-15, 0), **options)
        return
    if name in ("NEG", "HARD_SWISH"):
        raise DoesNotFit
    out = quantized("int16", shape, g.draw.near(x.type.quant.scale * float(g.draw.rng.uniform(0.4, 1.5))), 0)
    g.emit(name, [x], out, **({"alpha": 0.2} if name == "LEAKY_RELU" else {}))


@step(*INTEGERS)
def integer_function(g: MixedModel, x: Tensor) -> None:
    """ABS and NEG."""
    if x.type.dtype == "int64":
        g.emit("NEG", [x], x.type)
    else:
        g.emit(g.draw.pick("ABS", "NEG"), [x], x.type)


@step(*CODES, *INTEGERS, "float32", weight=2)
def relation(g: MixedModel, x: Tensor) -> None:
    """A comparison."""
    name = g.draw.pick("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    y = g.other(x)
    if x.type.dtype in CODES and max(x.type.quant.scale, y.type.quant.scale) >= 1:
        raise DoesNotFit  # the kernels would shift by negative counts
    g.emit(name, (x, y) if g.draw.pick(True, False) else (y, x), TensorType("bool", x.type.shape))


@step("bool", weight=4)
def choice(g: MixedModel, x: Tensor) -> None:
    """SELECT and SELECT_V2 between two tensors of one type."""
    known = [t for t in g.computed if t.type.shape == x.type.shape]
    if known and g.draw.rng.random() < 0.8:
        a = g.draw.pick(*known)
    else:
        a = g.feed(g.new_type(g.draw.pick(*ALL), x.type.shape))
    g.emit(g.draw.pick("SELECT", "SELECT_V2"), (x, a, g.alike(a)), a.type)


@step(*ALL)
def chosen(g: MixedModel, x: Tensor) -> None:
    """SELECT_V2 between a tensor and another by some condition."""
    conditions = [t for t in g.computed if t.type == TensorType("bool", x.type.shape)]
    condition = g.draw.pick(*conditions) if conditions else g.feed(TensorType("bool", x.type.shape))
    g.emit("SELECT_V2", (condition, x, g.alike(x)), x.type)


@step("bool", weight=3)
def logic(g: MixedModel, x: Tensor) -> None:
    """LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT."""
    name = g.draw.pick("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")
    g.emit(name, [x] if name == "LOGICAL_NOT" else [x, g.other(x)], x.type)


@step("bool", *INTEGERS, weight=3)
@step("float32")
def cast(g: MixedModel, x: Tensor) -> None:
    """CAST between types without quantization; floats that fit."""
    dtype = g.draw.pick("float32", "int32", "int64", "bool")
    if x.type.dtype == "float32" and g.limit(x) > 2e9:
        raise DoesNotFit
    g.emit("CAST", [x], TensorType(dtype, x.type.shape), limit=g.limit(x))


@step("float32", weight=5)
def quantize(g: MixedModel, x: Tensor) -> None:
    """QUANTIZE of floats."""
    dtype = g.draw.pick(*CODES)
    scale = g.draw.near(min(g.limit(x), 50 * LARGEST_FED) * float(g.draw.rng.uniform(0.1, 1.5)) / 128)
    if dtype == "int16":
        out = quantized(dtype, x.type.shape, scale / 256, 0)
    else:
        out = g.draw.tensor(dtype, x.type.shape, scale)
    g.emit("QUANTIZE", [x], out)


@step(*CODES, weight=2)
def dequantize(g: MixedModel, x: Tensor) -> None:
    """DEQUANTIZE."""
    limit = 2 * g.limit(x) * x.type.quant.scale
    g.emit("DEQUANTIZE", [x], TensorType("float32", x.type.shape), limit=limit)


@step(*CODES)
def requantize(g: MixedModel, x: Tensor) -> None:
    """QUANTIZE between codes of 8 and 16 bits."""
    dtype = g.draw.pick(*(t for t in CODES if "int16" in (t, x.type.dtype)))
    if "uint8" in (dtype, x.type.dtype):
        raise DoesNotFit
    reach = g.limit(x) / max(map(abs, INTEGER_RANGE[dtype]))
    scale = g.draw.near(x.type.quant.scale * reach * float(np.exp(g.draw.rng.uniform(-1, 1))))
    zero = 0 if dtype == "int16" else g.draw.zero_point(dtype)
    g.emit("QUANTIZE", [x], quantized(dtype, x.type.shape, scale, zero))


def reduced(g: MixedModel, x: Tensor) -> tuple[int, tuple[int, ...], bool, int]:
    """Constant axes, the result's shape, ``keep_dims``, how many elements become one."""
    rank, keep = len(x.type.shape), bool(g.draw.pick(True, False))
    if not rank:
        raise DoesNotFit
    axes = [axis for axis in range(rank) if g.draw.pick(True, False)] or [rank - 1]
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.type.shape) if keep or axis not in axes)
    count = int(np.prod([x.type.shape[axis] for axis in axes]))
    return g.integers([axis - g.draw.pick(0, rank) for axis in axes]), shape, keep, count


@step(*CODES, *INTEGERS, "float32", weight=2)
def reduce(g: MixedModel, x: Tensor) -> None:
    """SUM, MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD."""
    dtype = x.type.dtype
    names = ["SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN"]
    if dtype == "int16":
        names.remove("SUM")  # no reference kernel
    name = g.draw.pick(*names, *(["REDUCE_PROD"] if dtype not in CODES else []))
    axes, shape, keep, count = reduced(g, x)
    limit = g.limit(x) * (count if name == "SUM" else 1)
    if name == "REDUCE_PROD":
        limit = float(np.exp(min(np.log(max(g.limit(x), 1.0)) * count, 500)))
    out = x.type.with_shape(shape)
    if dtype in CODES and name in ("SUM", "MEAN") and g.draw.pick(True, False):
        scale = g.draw.near(x.type.quant.scale * (count if name == "SUM" else 0.4))
        out = quantized(dtype, shape, scale, 0 if dtype == "int16" else g.draw.zero_point(dtype))
    g.emit(name, [x, axes], out, limit=limit if dtype == "float32" else None, keep_dims=keep)


@step("bool")
def reduce_bool(g: MixedModel, x: Tensor) -> None:
    """REDUCE_ANY, REDUCE_ALL."""
    axes, shape, keep, _ = reduced(g, x)
    g.emit(g.draw.pick("REDUCE_ANY", "REDUCE_ALL"), [x, axes], x.type.with_shape(shape), keep_dims=keep)


step("int16", weight=2)(old_step(RandomModel.pool))


@step("float32", weight=2)
def float_pool(g: MixedModel, x: Tensor) -> None:
    """A pool of floats without -0.0: the sign of a zero among extrema depends on the vector unit."""
    g.image(x)
    zero = g.model.tensor((1,), "float32", data=np.zeros(1, np.float32))
    g.pool(g.emit("ADD", (x, zero), x.type, fused_activation_function="NONE"))
