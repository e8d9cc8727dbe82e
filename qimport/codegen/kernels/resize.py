"""Images read at other places than their pixels': copies of pixels, or blends of four."""

from __future__ import annotations

from typing import Any

from qimport import prim
from qimport.codegen.elementwise import preferred_lanes
from qimport.codegen.function import ELEMENTS, F32, I32, I64, Index, KernelFunction
from qimport.codegen.fused import fused_multiply_add
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import like, retyped, splat, vector_type
from qimport.errors import CompilerBug
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel, dense_strides
from qimport.summation import INTEGRAL_BLENDS


class _Image:
    """The function under construction, the operand NHWC and the constants along rows and columns."""

    def __init__(self, module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        if kernel.epilogue:
            raise CompilerBug(f"{kernel.root.op.NAME} cannot take elementwise nodes")
        self.fn = access.start(module, name, kernel, target)
        self.kernel = kernel
        self.layout = layout
        self.x, *self.constants = [value for value in kernel.root.inputs if value is not None]
        self.pointer = access.pointer_to(self.fn, kernel, layout, self.x)
        self.strides = dense_strides(self.x.type.shape)
        self.results = access.result_strides(kernel)

    def number(self, value: Value, place: Index) -> Any:
        """Element ``place`` of a constant: an i64 for places, otherwise as it is."""
        pointer = access.pointer_to(self.fn, self.kernel, self.layout, value)
        dtype = value.type.dtype
        found = self.fn.load(self.fn.element(pointer, place, dtype), ELEMENTS[dtype])
        return self.fn.b.sext(found, I64) if dtype == "int32" else found

    def along(self, value: Value, place: Index, axis: int) -> Any:
        """The element offset that a table of places gives along an axis."""
        return self.fn.mul(self.number(value, place), self.strides[axis])


def emit_sample(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """One copy per pixel."""
    image = _Image(module, name, kernel, target, layout)
    fn, (rows, columns), dtype = image.fn, image.constants, image.x.type.dtype
    batches, height, width, channels = kernel.result.type.shape

    def row(outer: list[Index]) -> None:
        batch, y = outer
        start = fn.add(fn.mul(batch, image.strides[0]), image.along(rows, y, 1))

        def pixel(x: Index) -> None:
            source = fn.element(image.pointer, fn.add(start, image.along(columns, x, 2)), dtype)
            place = access.offset(fn, (batch, y, x), image.results[:3])
            fn.copy(fn.element(fn.result, place, dtype), source, channels * kernel.result.type.itemsize)

        fn.loop(0, width, 1, pixel)

    access.nest(fn, (batches, height), row)
    return fn.finish()


def emit_interpolate(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Vectors along the channels."""
    op = kernel.root.op
    if not isinstance(op, prim.Interpolate):
        raise CompilerBug(f"{op.NAME} is no interpolation")
    image = _Image(module, name, kernel, target, layout)
    fn, dtype = image.fn, image.x.type.dtype
    top, bottom, fy, left, right, fx = image.constants
    batches, height, width, channels = kernel.result.type.shape
    lanes = preferred_lanes(kernel.graph, target)
    blend = _Blend(fn, op.blend, dtype)

    def row(outer: list[Index]) -> None:
        batch, y = outer
        start = fn.mul(batch, image.strides[0])
        lines = [fn.add(start, image.along(places, y, 1)) for places in (top, bottom)]
        down = image.number(fy, y)

        def pixel(x: Index) -> None:
            steps = [image.along(places, x, 2) for places in (left, right)]
            corners = [fn.add(line, step) for line in lines for step in steps]
            across = image.number(fx, x)
            target_place = access.offset(fn, (batch, y, x), image.results[:3])

            def block(c: Index, count: int) -> None:
                type_ = vector_type(ELEMENTS[dtype], count)
                loaded = [
                    fn.load(fn.element(image.pointer, fn.add(place, c), dtype), type_) for place in corners
                ]
                access.store(fn, kernel, blend.emit(loaded, down, across, count), fn.add(target_place, c))

            fn.blocks(channels, lanes, True, block)

        fn.loop(0, width, 1, pixel)

    access.nest(fn, (batches, height), row)
    return fn.finish()


class _Blend:
    """Writes :func:`qimport.summation.blend` for elements of ``dtype``."""

    def __init__(self, fn: KernelFunction, kind: str, dtype: str) -> None:
        self.fn = fn
        self.b = fn.b
        self.kind = kind
        self.dtype = dtype
        self.integral = kind in INTEGRAL_BLENDS
        # Products of 8-bit codes and both weights fit 32 bits, except in the last step of eleven-bit weights.
        self.element = F32 if not self.integral else (I64 if dtype == "int16" else I32)

    def emit(self, corners: list[Any], down: Any, across: Any, lanes: int) -> Any:
        """One vector of results; ``down`` and ``across`` are scalar weights."""
        wide = [self._widened(value) for value in corners]
        fy, fx = (splat(self.fn, self._weight(value), lanes) for value in (down, across))
        value = getattr(self, f"_{self.kind}")(wide, fy, fx)
        type_ = retyped(value, ELEMENTS[self.dtype])
        if self.integral:
            return self.b.trunc(value, type_)
        if self.dtype == "float32":
            return value
        rounded = self.b.fadd(value, like(value, 0.5))
        return self.b.trunc(self.b.fptosi(rounded, retyped(value, I32)), type_)

    def _widened(self, value: Any) -> Any:
        if self.dtype == "float32":
            return value
        type_ = retyped(value, I32 if self.element is F32 else self.element)
        wide = self.b.zext(value, type_) if self.dtype.startswith("u") else self.b.sext(value, type_)
        return self.b.sitofp(wide, retyped(value, F32)) if self.element is F32 else wide

    def _weight(self, value: Any) -> Any:
        return self.b.trunc(value, I32) if self.element is I32 else value

    def _mix(self, first: Any, second: Any, weight: Any) -> Any:
        """first * (2^10 - weight) + second * weight."""
        b = self.b
        return b.add(b.mul(first, b.sub(like(weight, 1024), weight)), b.mul(second, weight))

    def _tenth_bits(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners
        b = self.b
        v = self._mix(self._mix(tl, tr, fx), self._mix(bl, br, fx), fy)
        positive = b.icmp_signed(">", v, like(v, 0))
        v = b.add(v, b.select(positive, like(v, 1 << 19), like(v, -(1 << 19))))
        return b.sdiv(v, like(v, 1 << 20))

    def _eleventh_bits(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners
        b = self.b

        def step(first: Any, second: Any) -> Any:
            return b.add(b.shl(first, like(first, 11)), b.mul(b.sub(second, first), fx))

        top, bottom = step(tl, tr), step(bl, br)
        difference = b.mul(b.sub(bottom, top), fy)
        v = b.add(b.add(b.shl(top, like(top, 11)), difference), like(top, 1 << 21))
        # |top| < 2^19, so |v| < 2^31: uint8 stays under 255 * 2^22 + 2^21.
        return b.ashr(v, like(v, 22))

    def _steps(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners

        def step(first: Any, second: Any, weight: Any) -> Any:
            return self.b.fadd(first, self.b.fmul(self.b.fsub(second, first), weight))

        return step(step(tl, tr, fx), step(bl, br, fx), fy)

    def _fused_steps(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners

        def step(first: Any, second: Any, weight: Any) -> Any:
            return fused_multiply_add(self.fn, self.b.fsub(second, first), weight, first)

        return step(step(tl, tr, fx), step(bl, br, fx), fy)

    def _fused_weights(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners
        b, (gy, gx) = self.b, self._complements(fy, fx)
        total = b.fmul(tr, b.fmul(gy, fx))
        for value, down, across in ((tl, gy, gx), (bl, fy, gx), (br, fy, fx)):
            total = fused_multiply_add(self.fn, value, b.fmul(down, across), total)
        return total

    def _weights(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners
        b, (gy, gx) = self.b, self._complements(fy, fx)
        products = [
            b.fmul(value, b.fmul(down, across))
            for value, down, across in ((tl, gy, gx), (tr, gy, fx), (bl, fy, gx), (br, fy, fx))
        ]
        return self._total(products)

    def _terms(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners
        b, (gy, gx) = self.b, self._complements(fy, fx)
        products = [
            b.fmul(b.fmul(value, down), across)
            for value, down, across in ((tl, gy, gx), (bl, fy, gx), (tr, gy, fx), (br, fy, fx))
        ]
        return self._total(products)

    def _quarters(self, corners: list[Any], fy: Any, fx: Any) -> Any:
        tl, tr, bl, br = corners
        total = self.b.fadd(self.b.fadd(tl, bl), self.b.fadd(tr, br))
        return self.b.fmul(total, like(total, 0.25))

    def _complements(self, *weights: Any) -> list[Any]:
        return [self.b.fsub(like(weight, 1.0), weight) for weight in weights]

    def _total(self, products: list[Any]) -> Any:
        """Beginning or ending with a 0, which only matters for the sign of a zero."""
        total = products[0]
        for product in (*products[1:], like(total, 0.0)):
            total = self.b.fadd(total, product)
        return total
