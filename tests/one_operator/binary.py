"""ADD, SUB, MUL, DIV, SQUARED_DIFFERENCE and the relations on codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from tests.cases import ACTIVATIONS, Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.plain import RELATIONS, broadcast_shapes
from tests.single_op import quantized


def coded(draw: Draw, dtype: str, shape: tuple[int, ...], scale: float) -> TensorType:
    """A quantized type; int16 has no zero point."""
    return quantized(dtype, shape, scale, 0 if dtype == "int16" else draw.zero_point(dtype))


def one_binary(
    draw: Draw,
    builtin: str,
    a: TensorType,
    b: TensorType,
    out: TensorType,
    divisor: Array | None = None,
    **options: Any,
) -> OneOperator:
    """A file with the operator; one operand may be a constant, or both be one tensor."""
    model = ModelBuilder()
    arrays = [draw.codes(a), draw.codes(b) if divisor is None else divisor]
    if a == b and divisor is None and draw.rng.random() < 0.2:
        tensors = [add_tensor(model, a)] * 2
        fed = [0]
    else:
        constant = int(draw.pick(-1, -1, -1, 0, 1))
        tensors = [
            add_tensor(model, type_, arrays[i] if i == constant else None) for i, type_ in enumerate((a, b))
        ]
        fed = [i for i in (0, 1) if i != constant]
    result = add_tensor(model, out)
    model.operator(builtin, tensors, [result], 2, **options)
    file = model.build([tensors[i] for i in fed], [result])
    text = f"{builtin} {a}, {b} -> {out} {options}"
    return OneOperator(file, ([arrays[i] for i in fed],), text)


def _sum(builtin: str, dtype: str) -> None:
    @generator(f"{builtin} {dtype}")
    def draw_sum(draw: Draw) -> OneOperator:
        left, right = broadcast_shapes(draw)
        low, high = (1e-6, 1e-2) if dtype == "int16" else (0.002, 0.3)
        s_a = draw.scale(low, high)
        s_b = s_a if draw.rng.random() < 0.1 else draw.scale(low, high)
        s_out = draw.near(max(s_a, s_b) * float(np.exp(draw.rng.uniform(*draw.pick((-1, 2), (-4, 7))))))
        a, b = coded(draw, dtype, left, s_a), coded(draw, dtype, right, s_b)
        out = coded(draw, dtype, np.broadcast_shapes(left, right), s_out)
        options = {"pot_scale_int16": False} if dtype == "int16" else {}
        return one_binary(
            draw, builtin, a, b, out, fused_activation_function=draw.pick(*ACTIVATIONS), **options
        )


@generator("ADD int16 small")
def draw_small_add(draw: Draw) -> OneOperator:
    """A result scale so small that every unit of the shifted operands shows, and small codes to match."""
    shape = broadcast_shapes(draw, 1)[0]
    s_a, s_b = draw.scale(1e-5, 1e-4), draw.scale(1e-5, 1e-4)
    s_out = draw.near(max(s_a, s_b) * 2.0 ** float(draw.rng.uniform(-12, -9)))
    types = [coded(draw, "int16", shape, scale) for scale in (s_a, s_b)]
    model = ModelBuilder()
    tensors = [add_tensor(model, type_) for type_ in types]
    result = add_tensor(model, coded(draw, "int16", shape, s_out))
    model.operator("ADD", tensors, [result], 2, pot_scale_int16=False)
    codes = [np.asarray(draw.rng.integers(-20, 21, shape), np.int16) for _ in types]
    text = f"ADD of small codes {types[0]}, {types[1]} -> {s_out}"
    return OneOperator(model.build(tensors, [result]), (codes,), text)


@generator("ADD int16 shifted")
def draw_shifted_add(draw: Draw) -> OneOperator:
    return _shifted(draw, "ADD", [broadcast_shapes(draw, 1)[0]] * 2)


@generator("SUB int16 shifted")
def draw_shifted_sub(draw: Draw) -> OneOperator:
    return _shifted(draw, "SUB", broadcast_shapes(draw))


def _shifted(draw: Draw, builtin: str, shapes: list[tuple[int, ...]]) -> OneOperator:
    first = int(draw.rng.integers(-15, -3))
    shift = int(draw.rng.integers(0, draw.pick(3, 16)))
    scales = [2.0**first, 2.0 ** (first - shift)][:: draw.pick(1, -1)]
    types = [coded(draw, "int16", shape, scale) for shape, scale in zip(shapes, scales, strict=True)]
    out = coded(draw, "int16", np.broadcast_shapes(*shapes), 2.0**first)
    options = {"fused_activation_function": draw.pick(*ACTIVATIONS), "pot_scale_int16": True}
    return one_binary(draw, builtin, types[0], types[1], out, **options)


def _product(dtype: str, result: str) -> None:
    @generator(f"MUL {dtype}" if dtype == result else f"MUL {dtype} {result}")
    def draw_product(draw: Draw) -> OneOperator:
        left, right = broadcast_shapes(draw) if dtype == result else broadcast_shapes(draw, 1) * 2
        low, high = (1e-6, 1e-2) if dtype == "int16" else (0.002, 0.3)
        s_a, s_b = draw.scale(low, high), draw.scale(low, high)
        reach = 2.0**15 if dtype == "int16" else 2.0**7
        spread = float(np.exp(draw.rng.uniform(*draw.pick((-3, 3), (-6, 12), (-6, 12), (-80, -20)))))
        s_out = draw.near(s_a * s_b * reach * spread)
        a, b = coded(draw, dtype, left, s_a), coded(draw, dtype, right, s_b)
        out = coded(draw, result, np.broadcast_shapes(left, right), s_out)
        # The interpreter refuses bounds whose codes overflow int32.
        activation = draw.pick(*ACTIVATIONS) if s_out > 1e-8 else draw.pick("NONE", "RELU")
        return one_binary(draw, "MUL", a, b, out, fused_activation_function=activation)


for _dtype in ("int8", "uint8", "int16"):
    _sum("ADD", _dtype)
    _sum("SUB", _dtype)
    _product(_dtype, _dtype)
_product("int16", "int8")
_product("int16", "uint8")


def _relation(kind: str) -> None:
    @generator(f"{kind.upper()} quantized")
    def draw_relation(draw: Draw) -> OneOperator:
        dtype = draw.pick("int8", "uint8", "int16")
        left, right = broadcast_shapes(draw)
        s_a = draw.scale(0.002, 0.9)
        same = draw.rng.random() < 0.5
        a = coded(draw, dtype, left, s_a)
        b = (
            quantized(dtype, right, s_a, a.quant.zero_point)
            if same
            else coded(draw, dtype, right, draw.scale())
        )
        out = TensorType("bool", np.broadcast_shapes(left, right))
        return one_binary(draw, kind.upper(), a, b, out)


for _name in RELATIONS:
    _relation(_name)


def _quotient(dtype: str) -> None:
    @generator(f"DIV {dtype}")
    def draw_quotient(draw: Draw) -> OneOperator:
        left, right = broadcast_shapes(draw, most=4)
        low, high = (1e-5, 1e-2) if dtype == "int16" else (0.002, 0.3)
        a, b = (
            coded(draw, dtype, left, draw.scale(low, high)),
            coded(draw, dtype, right, draw.scale(low, high)),
        )
        ratio = a.quant.scale / b.quant.scale * float(np.exp(draw.rng.uniform(-8, 4)))
        out = coded(draw, dtype, np.broadcast_shapes(left, right), draw.near(ratio))
        codes = draw.codes(b)
        zero = b.quant.zero_point
        codes = np.where(codes == zero, zero + 1 if zero < 100 else zero - 1, codes).astype(b.numpy)
        return one_binary(
            draw, "DIV", a, b, out, divisor=codes, fused_activation_function=draw.pick(*ACTIVATIONS)
        )


for _dtype in ("int8", "uint8", "int16"):
    _quotient(_dtype)


@generator("SQUARED_DIFFERENCE int8")
def draw_squared_difference(draw: Draw) -> OneOperator:
    left, right = broadcast_shapes(draw)
    a, b = coded(draw, "int8", left, draw.scale()), coded(draw, "int8", right, draw.scale())
    largest = max(a.quant.scale, b.quant.scale)
    s_out = draw.near(largest**2 * float(np.exp(draw.rng.uniform(*draw.pick((0, 6), (-7, 9))))))
    return one_binary(
        draw, "SQUARED_DIFFERENCE", a, b, coded(draw, "int8", np.broadcast_shapes(left, right), s_out)
    )
