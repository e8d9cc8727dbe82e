"""Rows of int16 normalized in fixed point; scalar code, since an LSTM spends its time in the products."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport import prim
from qimport.codegen.function import I1, I16, I32, I64, Index, KernelFunction, index
from qimport.codegen.gemmlowp import high_mul, saturated32, wrapped32
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import clamp_signed
from qimport.errors import CompilerBug
from qimport.fixedpoint import INT16_MAX, INT16_MIN, INT32_MAX
from qimport.lower.kernel import Kernel


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Two passes per row: sums, results."""
    op, operands = kernel.root.op, kernel.root.inputs
    if not isinstance(op, prim.LayerNorm16) or kernel.epilogue or None in operands:
        raise CompilerBug("a layer normalization kernel is one prim.layer_norm16")
    fn = access.start(module, name, kernel, target)
    source, weights, bias = (
        access.pointer_to(fn, kernel, layout, value) for value in operands if value is not None
    )
    rows, count = kernel.result.type.shape
    stride = access.result_strides(kernel)[0]
    code = _Rows(fn, op, count, weights, bias)

    def row(number: Index) -> None:
        code.emit(
            fn.element(source, fn.mul(number, count), "int16"),
            fn.element(fn.result, fn.mul(number, stride), "int16"),
        )

    fn.loop(0, rows, 1, row)
    return fn.finish()


class _Rows:
    """Writes the code of one row; numbers are i64 and hold int32 values unless said otherwise."""

    def __init__(self, fn: KernelFunction, op: prim.LayerNorm16, count: int, weights: Any, bias: Any) -> None:
        self.fn = fn
        self.b = fn.b
        self.op = op
        self.count = count
        self.weights = weights
        self.bias = bias

    def emit(self, source: Any, result: Any) -> None:
        """From one row to one row."""
        b, fn = self.b, self.fn
        total, squares = self._sums(source)
        mean = wrapped32(self.fn, b.sdiv(b.mul(total, index(1024)), index(self.count)))
        spread = b.sub(b.mul(squares, index(2**20 // self.count)), b.mul(mean, mean))
        variance = wrapped32(self.fn, b.sdiv(spread, index(2**20)))
        variance = b.select(b.icmp_signed("<", variance, index(1)), index(self.op.guard), variance)
        multiplier, shift = self._inverse_sqrt(variance)

        def put(k: Index) -> None:
            shifted = b.sub(b.mul(self._load(source, k, I16), index(1024)), mean)
            rescaled = self._divide_by_pot(high_mul(self.fn, wrapped32(self.fn, shifted), multiplier), shift)
            weighted = b.mul(rescaled, self._load(self.weights, k, I16))
            weighted = wrapped32(self.fn, b.add(weighted, self._load(self.bias, k, I32)))
            nudge = b.select(b.icmp_signed(">", weighted, index(0)), index(512), index(-512))
            rounded = b.sdiv(b.add(weighted, nudge), index(1024))
            code = clamp_signed(fn, self._scaled(rounded), INT16_MIN, INT16_MAX)
            fn.store(b.trunc(code, I16), fn.element(result, k, "int16"))

        fn.loop(0, self.count, 1, put)

    def _sums(self, source: Any) -> Any:
        """Sum and sum of squares, in all 64 bits."""

        def step(k: Index, total: Any, squares: Any) -> list[Any]:
            value = self._load(source, k, I16)
            return [self.b.add(total, value), self.b.add(squares, self.b.mul(value, value))]

        return self.fn.loop(0, self.count, 1, step, [index(0), index(0)])

    def _load(self, pointer: Any, k: Index, element: Any) -> Any:
        place = self.fn.element(pointer, k, f"int{element.width}")
        return self.b.sext(self.fn.load(place, element), I64)

    def _scaled(self, value: Any) -> Any:
        """Times the weights' scale and 2^12."""
        exponent = self.op.exponent + 12
        shifted = wrapped32(self.fn, self.b.shl(value, index(max(exponent, 0))))
        return self._divide_by_pot(
            high_mul(self.fn, shifted, index(self.op.multiplier)), index(max(-exponent, 0))
        )

    def _inverse_sqrt(self, value: Any) -> tuple[Any, Any]:
        """``fixedpoint.inverse_sqrt_multiplier`` of value < 2^31; the exponent with its sign changed."""
        b = self.b
        large = b.icmp_signed(">=", value, index(2**29))
        x = b.select(large, b.ashr(value, index(2)), value)
        x = b.select(b.icmp_signed("<", x, index(2)), index(2), x)
        zeros = self.fn.intrinsic("llvm.ctlz.i32", I32, [b.trunc(x, I32), ir.Constant(I1, 0)])
        pairs = b.sub(b.ashr(b.sub(b.zext(zeros, I64), index(1)), index(1)), index(1))
        x = b.shl(x, b.shl(pairs, index(1)))
        shift = b.sub(b.select(large, index(12), index(11)), pairs)
        half = self._divide_by_pot(b.ashr(x, index(1)), index(1))
        root: Any = index(1 << 28)
        for _ in range(5):
            cube = saturated32(
                self.fn, b.shl(high_mul(self.fn, high_mul(self.fn, root, root), root), index(6))
            )
            change = b.sub(high_mul(self.fn, index(3 << 27), root), high_mul(self.fn, half, cube))
            root = saturated32(self.fn, b.shl(change, index(3)))
        negative = b.icmp_signed("<", shift, index(0))
        root = high_mul(self.fn, root, index(1518500250))
        root = b.shl(root, b.select(negative, b.neg(shift), index(0)))
        shift = b.select(negative, index(0), shift)
        small = b.icmp_signed("<=", value, index(1))
        return b.select(small, index(INT32_MAX), root), b.select(small, index(0), shift)

    def _divide_by_pot(self, x: Any, exponent: Any) -> Any:
        """``rounding_divide_by_pot``, for exponents of 0 to 31."""
        b = self.b
        mask = b.sub(b.shl(index(1), exponent), index(1))
        threshold = b.sub(b.ashr(mask, index(1)), b.ashr(x, index(63)))
        up = b.icmp_signed(">", b.and_(x, mask), threshold)
        return b.add(b.ashr(x, exponent), b.zext(up, I64))
