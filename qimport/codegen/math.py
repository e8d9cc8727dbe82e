"""Code of ``prim.math``: the steps of :mod:`qimport.real` as instructions on lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qimport.codegen.function import F32, F64, I32, I64, KernelFunction
from qimport.codegen.fused import fused_multiply_add
from qimport.codegen.vector import constant, element_of, like, mangled, retyped
from qimport.real import FUNCTIONS, FUNCTIONS64
from qimport.real.steps import Function


def emit_function(fn: KernelFunction, kind: str, value: Any) -> Any:
    """Function ``kind`` of float32 or float64 lanes."""
    if element_of(value.type) == F64:
        return FUNCTIONS64[kind](CodeSteps(fn, 52), Lanes(fn, value)).value
    return FUNCTIONS[kind](CodeSteps(fn, 23), Lanes(fn, value)).value


@dataclass(frozen=True, eq=False)
class Lanes:
    """A value under Python's operators: IEEE floats, unsigned integers, ordered comparisons."""

    fn: KernelFunction
    value: Any

    @property
    def floating(self) -> bool:
        """Whether these are floats."""
        return element_of(self.value.type) in (F32, F64)

    def of(self, other: Lanes | float) -> Any:
        """Another operand; a number stands for itself in every lane."""
        return other.value if isinstance(other, Lanes) else like(self.value, other)

    def _apply(self, floats: str, integers: str, other: Lanes | float, swapped: bool = False) -> Lanes:
        operands = [self.value, self.of(other)]
        method: Callable[..., Any] = getattr(self.fn.b, floats if self.floating else integers)
        return Lanes(self.fn, method(*(operands[::-1] if swapped else operands)))

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._apply("fadd", "add", other)

    def __radd__(self, other: float) -> Lanes:
        return self._apply("fadd", "add", other, swapped=True)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._apply("fsub", "sub", other)

    def __rsub__(self, other: float) -> Lanes:
        return self._apply("fsub", "sub", other, swapped=True)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._apply("fmul", "mul", other)

    def __rmul__(self, other: float) -> Lanes:
        return self._apply("fmul", "mul", other, swapped=True)

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self._apply("fdiv", "udiv", other)

    def __rtruediv__(self, other: float) -> Lanes:
        return self._apply("fdiv", "udiv", other, swapped=True)

    def __and__(self, other: Lanes | int) -> Lanes:
        return self._apply("and_", "and_", other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self._apply("or_", "or_", other)

    def __xor__(self, other: Lanes | int) -> Lanes:
        return self._apply("xor", "xor", other)

    def __lshift__(self, count: int) -> Lanes:
        return self._apply("shl", "shl", count)

    def __rshift__(self, count: int) -> Lanes:
        return self._apply("lshr", "lshr", count)

    def _compare(self, relation: str, other: Lanes | float) -> Lanes:
        compare = self.fn.b.fcmp_ordered if self.floating else self.fn.b.icmp_unsigned
        return Lanes(self.fn, compare(relation, self.value, self.of(other)))

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self._compare("<", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self._compare(">", other)

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


class CodeSteps:
    """:class:`qimport.real.steps.Steps` as instructions."""

    def __init__(self, fn: KernelFunction, mantissa: int) -> None:
        self.fn = fn
        self.mantissa = mantissa
        self.float_type, self.integer_type = (F64, I64) if mantissa == 52 else (F32, I32)

    def bits(self, value: Lanes) -> Lanes:
        """A bitcast."""
        return Lanes(self.fn, self.fn.b.bitcast(value.value, retyped(value.value, self.integer_type)))

    def floats(self, bits: Lanes) -> Lanes:
        """A bitcast."""
        return Lanes(self.fn, self.fn.b.bitcast(bits.value, retyped(bits.value, self.float_type)))

    def choose(self, condition: Lanes, yes: Lanes | float, no: Lanes | float) -> Lanes:
        """A select."""
        model = Lanes(self.fn, constant(retyped(condition.value, self.float_type), 0.0))
        return Lanes(self.fn, self.fn.b.select(condition.value, model.of(yes), model.of(no)))

    def pick(self, index: Lanes, table: Sequence[float]) -> Lanes:
        """A tree of selects, from the highest bit of the index on."""
        if len(table) == 2:
            return self.choose((index & 1) == 1, table[1], table[0])
        half = len(table) // 2
        return self.choose(
            (index & half) == half, self.pick(index, table[half:]), self.pick(index, table[:half])
        )

    def fma(self, a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
        """One instruction, or what stands for it."""
        return Lanes(self.fn, fused_multiply_add(self.fn, a.value, a.of(b), a.of(c)))

    def sqrt(self, value: Lanes) -> Lanes:
        """One instruction on every target."""
        type_ = value.value.type
        return Lanes(self.fn, self.fn.intrinsic(f"llvm.sqrt.{mangled(type_)}", type_, [value.value]))

    def rounded(self, function: Function, value: Lanes) -> Lanes:
        """In float64 lanes, then one conversion."""
        b, narrow = self.fn.b, value.value
        wide = Lanes(self.fn, b.fpext(narrow, retyped(narrow, F64)))
        return Lanes(self.fn, b.fptrunc(function(CodeSteps(self.fn, 52), wide).value, narrow.type))
