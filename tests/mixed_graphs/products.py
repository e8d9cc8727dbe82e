"""Products of matrices, transposed convolutions, and functions of 8-bit codes with results of one scale."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import INTEGER_RANGE, TensorType
from tests.cases import add_tensor
from tests.mixed_graphs.model import LARGEST_FED, MixedModel, step
from tests.random_models import DoesNotFit, Tensor
from tests.single_op import quantized

EIGHT_BIT = ("int8", "uint8")


@step("int8", "int16", "float32", weight=2)
def batch_matmul(g: MixedModel, x: Tensor) -> None:
    """BATCH_MATMUL by a constant or computed matrix; codes by codes of the same type."""
    if not 2 <= len(x.type.shape) <= 4:
        raise DoesNotFit
    *lead, rows, depth = x.type.shape
    columns, adj_y = int(g.draw.pick(1, 2, 5, 8)), bool(g.draw.pick(True, False))
    shape = (*lead, *((columns, depth) if adj_y else (depth, columns)))
    known = [t for t in (*g.computed, x) if t.type.dtype == x.type.dtype and t.type.shape[:-2] == tuple(lead)]
    known = [
        t for t in known if len(t.type.shape) == len(shape) and t.type.shape[-1 if adj_y else -2] == depth
    ]
    y = g.draw.pick(*known) if known and g.draw.pick(True, False) else g.partner(x, shape)
    columns = y.type.shape[-2 if adj_y else -1]
    out, result = x.type, (*lead, rows, columns)
    if x.type.dtype == "float32":
        limit: float | None = g.limit(x) * g.limit(y) * depth
    else:
        spread = (9000.0**2 / 12000 if x.type.dtype == "int16" else 74.0**2 / 50) * np.sqrt(depth)
        scale = g.draw.near(x.type.quant.scale * y.type.quant.scale * spread)
        out, limit = g.new_type(x.type.dtype, ()), None
        out = quantized(out.dtype, (), scale, out.quant.zero_point)
    g.emit("BATCH_MATMUL", [x, y], out.with_shape(result), limit=limit, adj_x=False, adj_y=adj_y)


@step(*EIGHT_BIT, "float32")
def transpose_conv(g: MixedModel, x: Tensor) -> None:
    """TRANSPOSE_CONV by strides of up to 2."""
    batch, height, width, depth = g.image(x)
    size, stride, outputs = g.numbers(3), g.numbers(2), int(g.draw.pick(1, 2, 5, 8))
    shape = (outputs, *size, depth)
    extent = [n * s for n, s in zip((height, width), stride, strict=True)]
    result = (batch, *extent, outputs)
    if np.prod(shape) > 2000 or min(s - t for s, t in zip(size, stride, strict=True)) < 0:
        raise DoesNotFit
    options = {"padding": "SAME", "stride_h": stride[0], "stride_w": stride[1]}
    wanted, taps = g.integers(result), depth * size[0] * size[1]
    if x.type.dtype == "float32":
        w = g.constant(TensorType("float32", shape))
        limit = g.limit(x) * LARGEST_FED * taps
        g.emit("TRANSPOSE_CONV", [wanted, w, x], x.type.with_shape(result), limit=limit, **options)
        return
    made = g.draw.weights(x.type.dtype, shape, 0, g.draw.pick(True, False))
    bias = g.draw.bias(x.type, made.type, outputs)
    operands = [wanted, add_tensor(g.model, made.type, made.data), x]
    if g.draw.pick(True, False):
        operands.append(add_tensor(g.model, bias.type, bias.data))
    g.emit("TRANSPOSE_CONV", operands, g.draw.weighted_output(x.type, made, taps, result), **options)


@step(*EIGHT_BIT)
def normalization(g: MixedModel, x: Tensor) -> None:
    """LOG_SOFTMAX, L2_NORMALIZATION."""
    if not 1 <= len(x.type.shape) <= 4:
        raise DoesNotFit
    name = g.draw.pick("LOG_SOFTMAX", "L2_NORMALIZATION")
    middle = 0 if x.type.dtype == "int8" else 128
    highest = INTEGER_RANGE[x.type.dtype][1]
    scale, zero = (16 / 256, highest) if name == "LOG_SOFTMAX" else (1 / 128, middle)
    g.emit(name, [x], quantized(x.type.dtype, x.type.shape, scale, zero))


@step("int8", weight=2)
def function8(g: MixedModel, x: Tensor) -> None:
    """Functions of int8 codes that are tables."""
    name = g.draw.pick("EXP", "GELU", "LEAKY_RELU", "ABS", "PRELU")
    scale = g.draw.near(x.type.quant.scale * float(g.draw.rng.uniform(0.5, 1.5)))
    out = g.draw.tensor("int8", x.type.shape, scale)
    if name == "PRELU":
        if not 1 <= len(x.type.shape) <= 4:
            raise DoesNotFit
        slopes = g.constant(g.draw.tensor("int8", x.type.shape[-1:]))
        g.emit(name, [x, slopes], out)
    else:
        g.emit(name, [x], out, **({"alpha": 0.3} if name == "LEAKY_RELU" else {}))


@step(*EIGHT_BIT)
def quotient_or_square(g: MixedModel, x: Tensor) -> None:
    """SQUARED_DIFFERENCE of int8."""
    if x.type.dtype == "uint8":
        raise DoesNotFit
    y = g.other(x)
    scale = g.draw.near(max(x.type.quant.scale, y.type.quant.scale) ** 2 * 100)
    g.emit("SQUARED_DIFFERENCE", [x, y], g.draw.tensor("int8", x.type.shape, scale))
