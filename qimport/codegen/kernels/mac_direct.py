"""``prim.mac`` on operands as they lie in memory: weights known at run time, or words times words.

Products are taken along the channels, which are contiguous in both operands, in vectors; a few output
channels share what is loaded of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qimport.codegen.function import ELEMENTS, I16, I32, Index, KernelFunction
from qimport.codegen.isa.dot import multiply_add_pairs
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, horizontal, like, retyped, vector_type
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel, dense_strides

MOST_CHANNELS = 4
"""Output channels computed together, if they divide a group."""


def table_bytes(kernel: Kernel) -> int:
    """Bytes of those of weights and bias that are constant."""
    return sum(mac.align(value.type.nbytes) for value in mac.root_of(kernel)[2:] if value.is_constant)


def pack(kernel: Kernel) -> bytes:
    """Constant weights and bias as they are."""
    parts = [np.ascontiguousarray(v.data).tobytes() for v in mac.root_of(kernel)[2:] if v.data is not None]
    return b"".join(part.ljust(mac.align(len(part)), b"\0") for part in parts)


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Every pixel by itself, a few output channels at a time."""
    fn = access.start(module, name, kernel, target)
    direct = _Direct(fn, kernel, layout)
    finisher = Finisher(fn, kernel, target, layout)
    *image, outputs = kernel.root.outputs[0].type.shape
    pixels = dense_strides(image)

    def pixel(place: list[Index]) -> None:
        def block(channel: Index) -> None:
            sums = direct.sums([*place, channel], direct.channels)
            total = sums[0]
            if direct.channels > 1:
                total = constant(vector_type(total.type, direct.channels), 0)
                for lane, value in enumerate(sums):
                    total = fn.b.insert_element(total, value, I32(lane))
            finisher.store(total, access.offset(fn, place, pixels), channel, direct.channels)

        fn.loop(0, outputs, direct.channels, block)

    access.nest(fn, image, pixel)
    return fn.finish()


class _Direct:
    """Where the operands are and how to sum over them."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, layout: TableLayout) -> None:
        self.op, self.x, self.w, self.bias = mac.root_of(kernel)
        self.fn = fn
        self.total = ELEMENTS[self.bias.type.dtype]
        self.outputs, _, _, self.depth = self.w.type.shape
        self.per_group = self.outputs // self.op.groups
        whole = self.per_group % MOST_CHANNELS == 0
        self.channels = MOST_CHANNELS if whole else 1
        self.in_words = self.total == I32 and all(
            value.type.itemsize == 1 or zero == 0
            for value, zero in ((self.x, self.op.input_zero), (self.w, self.op.weight_zero))
        )
        self.lanes = fn.target.vector_bytes // (2 if self.in_words else self.total.width // 8)
        start = 0
        pointers = []
        for value in (self.w, self.bias):
            if value.is_constant:
                pointers.append(fn.at(fn.tables, start))
                start += mac.align(value.type.nbytes)
            else:
                pointers.append(access.pointer_to(fn, kernel, layout, value))
        self.weights, self.biases = pointers
        self.input = access.pointer_to(fn, kernel, layout, self.x)

    def sums(self, place: Sequence[Index], count: int) -> list[Any]:
        """The sums of ``count`` output channels from ``place`` (image, row, column, output channel) on."""
        fn, op = self.fn, self.op
        _, kh, kw, depth = self.w.type.shape
        group = place[3]
        if isinstance(group, int):
            group //= self.per_group
        else:
            group = fn.b.udiv(group, group.type(self.per_group))
        strides = dense_strides(self.x.type.shape)
        corner = (place[0], *(fn.mul(place[1 + a], op.stride[a]) for a in (0, 1)))
        first = fn.add(access.offset(fn, corner, strides[:3]), fn.mul(group, depth))
        steps = dense_strides(self.w.type.shape)

        def tap(row: Index, column: Index, totals: Sequence[Any]) -> list[Any]:
            dilated = (fn.mul(row, op.dilation[0]), fn.mul(column, op.dilation[1]))
            x = fn.add(first, access.offset(fn, dilated, strides[1:3]))
            w = access.offset(fn, (place[3], row, column), steps[:3])
            return self._along(x, [fn.add(w, channel * steps[0]) for channel in range(count)], totals)

        def columns(row: Index, *totals: Any) -> Any:
            return fn.loop(0, kw, 1, lambda column, *t: tap(row, column, t), totals)

        biases = [self._bias(fn.add(place[3], channel)) for channel in range(count)]
        return list(fn.loop(0, kh, 1, columns, biases))

    def _bias(self, channel: Index) -> Any:
        return self.fn.load(self.fn.element(self.biases, channel, self.bias.type.dtype), self.total)

    def _along(self, x: Index, weights: Sequence[Index], totals: Sequence[Any]) -> list[Any]:
        """Add the products along the channels of one tap: whole vectors, then ever smaller ones."""
        fn, whole = self.fn, self.depth - self.depth % self.lanes
        results = list(totals)
        if whole:
            width = self.lanes // 2 if self.in_words else self.lanes
            start = [constant(vector_type(self.total, width), 0)] * len(results)

            def step(channel: Index, *carried: Any) -> list[Any]:
                return self._products(x, weights, channel, self.lanes, carried)

            carried = fn.loop(0, whole, self.lanes, step, start)
            results = [fn.b.add(r, horizontal(fn, "add", c)) for r, c in zip(results, carried, strict=True)]
        while whole < self.depth:
            lanes = 1 << ((self.depth - whole).bit_length() - 1)
            width = lanes // 2 if self.in_words and lanes > 1 else lanes
            zeros = [constant(vector_type(self.total, width), 0)] * len(results)
            parts = self._products(x, weights, whole, lanes, zeros)
            results = [fn.b.add(r, horizontal(fn, "add", p)) for r, p in zip(results, parts, strict=True)]
            whole += lanes
        return results

    def _products(
        self, x: Index, weights: Sequence[Index], channel: Index, lanes: int, carried: Sequence[Any]
    ) -> list[Any]:
        """Accumulators plus the products of ``lanes`` channels from ``channel`` on."""
        fn = self.fn
        a = self._load(self.input, self.x, fn.add(x, channel), self.op.input_zero, lanes)
        results = []
        for w, total in zip(weights, carried, strict=True):
            b = self._load(self.weights, self.w, fn.add(w, channel), self.op.weight_zero, lanes)
            if self.in_words and lanes > 1:
                results.append(multiply_add_pairs(fn, total, a, b))
            else:
                results.append(fn.b.add(total, fn.b.mul(a, b)))
        return results

    def _load(self, pointer: Any, value: Value, element: Index, zero: int, lanes: int) -> Any:
        """Codes without their zero point, in words or in the element type of the sums."""
        dtype = value.type.dtype
        code = self.fn.load(self.fn.element(pointer, element, dtype), vector_type(ELEMENTS[dtype], lanes))
        type_ = retyped(code, I16 if self.in_words and lanes > 1 else self.total)
        if code.type != type_:
            code = self.fn.b.zext(code, type_) if dtype == "uint8" else self.fn.b.sext(code, type_)
        return self.fn.b.sub(code, like(code, zero)) if zero else code
