"""Vectors of any width as values: constants, splats, shuffles, minima. One lane means a plain scalar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from qimport.codegen.function import F32, F64, I32, KernelFunction
from qimport.ir.types import INTEGER_RANGE


def vector_type(element: Any, lanes: int) -> Any:
    """``lanes`` elements; the element type itself for one lane."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def lanes_of(value: Any) -> int:
    """How many lanes a value has."""
    return int(value.type.count) if isinstance(value.type, ir.VectorType) else 1


def element_of(type_: Any) -> Any:
    """The element type of a vector type, or the scalar type itself."""
    return type_.element if isinstance(type_, ir.VectorType) else type_


def retyped(value: Any, element: Any) -> Any:
    """The type with ``value``'s lanes and another element."""
    return vector_type(element, lanes_of(value))


def constant(type_: Any, number: Any) -> Any:
    """The same number in every lane of ``type_``."""
    if isinstance(type_, ir.VectorType):
        return _Splat(type_, number)
    return ir.Constant(type_, number)


class _Splat(ir.Constant):  # type: ignore[misc]
    """The same number in every lane, written once: modules are printed and parsed as text."""

    def __init__(self, type_: Any, number: Any) -> None:
        super().__init__(type_, ir.Undefined)
        self._reference = f"splat ({ir.Constant(type_.element, number)})"

    def get_reference(self) -> str:
        return self._reference


def like(value: Any, number: Any) -> Any:
    """A constant of ``value``'s type."""
    return constant(value.type, number)


def shuffle(fn: KernelFunction, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    """Lanes of ``a`` (from 0) and ``b`` (from a's count)."""
    mask = ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, lane) for lane in lanes])
    return fn.b.shuffle_vector(a, b, mask)


def splat(fn: KernelFunction, scalar: Any, lanes: int) -> Any:
    """``scalar`` in every lane."""
    if lanes == 1:
        return scalar
    type_ = ir.VectorType(scalar.type, lanes)
    first = fn.b.insert_element(ir.Constant(type_, ir.Undefined), scalar, ir.Constant(I32, 0))
    return shuffle(fn, first, ir.Constant(type_, ir.Undefined), [0] * lanes)


def widen(fn: KernelFunction, value: Any, lanes: int) -> Any:
    """``value`` in the first lanes of a wider vector; the other lanes are undefined."""
    if lanes_of(value) == 1:
        empty = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        return fn.b.insert_element(empty, value, ir.Constant(I32, 0))
    count = lanes_of(value)
    spare = ir.Constant(value.type, ir.Undefined)
    return shuffle(fn, value, spare, [*range(count), *[count] * (lanes - count)])


def narrow(fn: KernelFunction, value: Any, lanes: int) -> Any:
    """The first ``lanes`` lanes."""
    if lanes == 1:
        return fn.b.extract_element(value, ir.Constant(I32, 0))
    return shuffle(fn, value, value, list(range(lanes)))


def by_lanes(fn: KernelFunction, width: int, function: Callable[..., Any], *operands: Any) -> Any:
    """Apply ``function`` to pieces of exactly ``width`` lanes, the last filled up with undefined ones."""
    lanes = lanes_of(operands[0])
    if lanes <= width:
        wide = operands if lanes == width else [widen(fn, operand, width) for operand in operands]
        result = function(*wide)
        return result if lanes == width else narrow(fn, result, lanes)
    pieces = []
    for start in range(0, lanes, width):
        part = range(start, start + width)
        pieces.append(function(*(shuffle(fn, operand, operand, part) for operand in operands)))
    return concatenated(fn, pieces)


def concatenated(fn: KernelFunction, parts: Sequence[Any]) -> Any:
    """The lanes of a power of two of equal vectors, one after the other."""
    while len(parts) > 1:
        joined = range(2 * lanes_of(parts[0]))
        parts = [shuffle(fn, a, b, joined) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def joined(fn: KernelFunction, parts: Sequence[Any]) -> Any:
    """The lanes of any number of equal vectors, one after the other."""
    whole = 1 << (len(parts).bit_length() - 1)
    front = concatenated(fn, parts[:whole])
    if whole == len(parts):
        return front
    back = joined(fn, parts[whole:])
    lanes, rest = lanes_of(front), lanes_of(back)
    return shuffle(fn, front, widen(fn, back, lanes), range(lanes + rest))


def repeated(fn: KernelFunction, value: Any, times: int) -> Any:
    """The lanes of a vector a power of two of ``times``."""
    return concatenated(fn, [value] * times)


def mangled(type_: Any) -> str:
    """The type as it appears in the name of an overloaded intrinsic."""
    element = element_of(type_)
    name = {F32: "f32", F64: "f64"}.get(element) or f"i{element.width}"
    return f"v{type_.count}{name}" if isinstance(type_, ir.VectorType) else name


def leading_zeros(fn: KernelFunction, value: Any) -> Any:
    """The count of zeros before the first bit that is set; all bits for 0."""
    arguments = [value, ir.Constant(ir.IntType(1), 0)]
    return fn.intrinsic(f"llvm.ctlz.{mangled(value.type)}", value.type, arguments)


def pairwise(fn: KernelFunction, operation: str, a: Any, b: Any) -> Any:
    """``llvm.<operation>`` of two values of one type: smin, umax, sadd.sat, minnum, copysign and so on."""
    return fn.intrinsic(f"llvm.{operation}.{mangled(a.type)}", a.type, [a, b])


def clamp_signed(fn: KernelFunction, value: Any, low: int, high: int) -> Any:
    """min(max(value, low), high) of signed integers."""
    return pairwise(fn, "smin", pairwise(fn, "smax", value, like(value, low)), like(value, high))


def clamp_bytes(fn: KernelFunction, value: Any, low: int, high: int, dtype: str) -> Any:
    """min(max(value, low), high) of int8 or uint8; a bound that ``dtype`` has anyway costs nothing."""
    lowest, highest = INTEGER_RANGE[dtype]
    sign = "s" if dtype == "int8" else "u"
    if low > lowest:
        value = pairwise(fn, f"{sign}max", value, like(value, low))
    if high < highest:
        value = pairwise(fn, f"{sign}min", value, like(value, high))
    return value


def clamp_float(fn: KernelFunction, value: Any, low: float, high: float) -> Any:
    """min(max(value, low), high); a NaN becomes ``low``."""
    if not fn.target.architecture.minimum_of_floats:
        least, most = like(value, low), like(value, high)
        value = fn.b.select(fn.b.fcmp_ordered(">", value, least), value, least)
        return fn.b.select(fn.b.fcmp_ordered("<", value, most), value, most)
    return pairwise(fn, "minnum", pairwise(fn, "maxnum", value, like(value, low)), like(value, high))


def magnitude(fn: KernelFunction, value: Any) -> Any:
    """|value| of floats."""
    return fn.intrinsic(f"llvm.fabs.{mangled(value.type)}", value.type, [value])


def horizontal(fn: KernelFunction, operation: str, value: Any) -> Any:
    """``llvm.vector.reduce.<operation>`` over the lanes: add, smax, smin, umax, umin."""
    if lanes_of(value) == 1:
        return value
    name = f"llvm.vector.reduce.{operation}.{mangled(value.type)}"
    return fn.intrinsic(name, element_of(value.type), [value])
