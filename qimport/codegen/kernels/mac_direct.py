"""``prim.mac`` with weights that are only known at run time: plain loops over the operands as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport.codegen.function import ELEMENTS, Index, KernelFunction
from qimport.codegen.kernels import access, mac
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import like
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel


def table_bytes(kernel: Kernel) -> int:
    """Bytes of those of weights and bias that are constant."""
    return sum(mac.align(value.type.nbytes) for value in mac.root_of(kernel)[2:] if value.is_constant)


def pack(kernel: Kernel) -> bytes:
    """Constant weights and bias as they are."""
    parts = [np.ascontiguousarray(v.data).tobytes() for v in mac.root_of(kernel)[2:] if v.data is not None]
    return b"".join(part.ljust(mac.align(len(part)), b"\0") for part in parts)


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Every output element by itself."""
    fn = access.start(module, name, kernel, target)
    direct = _Direct(fn, kernel, layout)
    finisher = mac.Finisher(fn, kernel, target, layout)
    shape = kernel.root.outputs[0].type.shape
    pixels = access.dense_strides(shape[:3])

    def element(place: list[Index]) -> None:
        finisher.store(direct.sum(place), access.offset(fn, place[:3], pixels), place[3], 1)

    access.nest(fn, shape, element)
    return fn.finish()


class _Direct:
    """Where the operands are and how to sum over them."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, layout: TableLayout) -> None:
        self.op, self.x, self.w, self.bias = mac.root_of(kernel)
        self.fn = fn
        self.total = ELEMENTS[self.bias.type.dtype]
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

    def sum(self, place: list[Index]) -> Any:
        """The sum of one output element (image, row, column, output channel)."""
        fn, op = self.fn, self.op
        outputs, kh, kw, depth = self.w.type.shape
        group = place[3]
        per_group = outputs // op.groups
        if isinstance(group, int):
            group //= per_group
        else:
            group = fn.b.udiv(group, group.type(per_group))
        strides = access.dense_strides(self.x.type.shape)
        corner = (place[0], *(fn.mul(place[1 + a], op.stride[a]) for a in (0, 1)))
        first = fn.add(access.offset(fn, corner, strides[:3]), fn.mul(group, depth))
        steps = access.dense_strides(self.w.type.shape)

        def product(row: Index, column: Index, channel: Index, total: Any) -> Any:
            tap = (fn.mul(row, op.dilation[0]), fn.mul(column, op.dilation[1]), channel)
            x = self._load(self.input, self.x, fn.add(first, access.offset(fn, tap, strides[1:])))
            w = self._load(self.weights, self.w, access.offset(fn, (place[3], row, column, channel), steps))
            x, w = fn.b.sub(x, like(x, op.input_zero)), fn.b.sub(w, like(w, op.weight_zero))
            return fn.b.add(total, fn.b.mul(x, w))

        def taps(row: Index, column: Index, total: Any) -> Any:
            return fn.loop(0, depth, 1, lambda c, t: [product(row, column, c, t)], [total])

        def columns(row: Index, total: Any) -> Any:
            return fn.loop(0, kw, 1, lambda column, t: taps(row, column, t), [total])

        bias = fn.load(fn.element(self.biases, place[3], self.bias.type.dtype), self.total)
        return fn.loop(0, kh, 1, columns, [bias])[0]

    def _load(self, pointer: Any, value: Value, element: Index) -> Any:
        dtype = value.type.dtype
        code = self.fn.load(self.fn.element(pointer, element, dtype), ELEMENTS[dtype])
        return self.fn.b.zext(code, self.total) if dtype == "uint8" else self.fn.b.sext(code, self.total)
