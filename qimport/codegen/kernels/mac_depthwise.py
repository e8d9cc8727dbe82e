"""Depthwise ``prim.mac``: vectors over channels, word weights, one row of pixels at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport import prim
from qimport.codegen.function import ELEMENTS, I16, I32, Index, KernelFunction
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import LANES, TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, vector_type
from qimport.fixedpoint import wrap32
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel, dense_strides

WIDE_TAPS = 256
"""Windows up to this many taps have sums of 16-bit activations times 9-bit weights in 32 bits."""

UNROLLED_TAPS = 49
"""Windows up to this many taps become straight code."""


def _lane_room(channels: int) -> int:
    """Channels padded so that full vectors stay inside the tables."""
    return -(-channels // LANES) * LANES


def table_bytes(kernel: Kernel) -> int:
    """Bytes of weights and bias."""
    _, _, w, bias = mac.root_of(kernel)
    outputs, kh, kw, _ = w.type.shape
    return _lane_room(outputs) * (kh * kw * 2 + bias.type.itemsize)


def applies(kernel: Kernel) -> bool:
    """Weights and bias in the file, 8-bit weights, sums that 32 bits hold until the bias is added."""
    _, _, w, _ = mac.root_of(kernel)
    fits = mac.sum_type(kernel) == "int32" or w.type.shape[1] * w.type.shape[2] <= WIDE_TAPS
    return mac.is_depthwise(kernel) and mac.constant_weights(kernel) and w.type.itemsize == 1 and fits


def pack(kernel: Kernel) -> bytes:
    """int16 weights [tap][channel], then the bias with the input zero point folded in."""
    op, _, w, bias = mac.root_of(kernel)
    assert w.data is not None and bias.data is not None
    outputs, kh, kw, _ = w.type.shape
    weights = np.zeros((kh * kw, _lane_room(outputs)), np.int64)
    weights[:, :outputs] = w.data.astype(np.int64).reshape(outputs, -1).T - op.weight_zero
    owed = -op.input_zero * weights.sum(0)
    owed[:outputs] += bias.data
    sums = owed if bias.type.dtype == "int64" else wrap32(owed).astype(np.int32)
    return weights.astype(np.int16).tobytes() + sums.tobytes()


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Rows of pixels outside, channel blocks next, pixels inside: weights stay in registers along a row."""
    fn = access.start(module, name, kernel, target)
    depthwise = _Depthwise(fn, kernel, target, layout)
    batch, rows, width, channels = kernel.result.type.shape
    lanes = target.lanes

    def row(place: list[Index]) -> None:
        def block(channel: Index, count: int) -> None:
            fn.loop(0, width, 1, lambda column: depthwise.pixel((*place, column), channel, count))

        fn.blocks(channels, lanes, False, block)

    access.nest(fn, (batch, rows), row)
    return fn.finish()


class _Depthwise:
    """One function being written."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        op, x, w, bias = mac.root_of(kernel)
        self.fn = fn
        self.bias: TensorType = bias.type
        self.op: prim.Mac = op
        self.x: TensorType = x.type
        self.window = w.type.shape[1:3]
        self.outputs = w.type.shape[0]
        self.multiplier = self.outputs // x.type.shape[3]
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        self.finisher = Finisher(fn, kernel, target, layout)
        self.pixels = dense_strides(kernel.result.type.shape[:3])

    def pixel(self, place: tuple[Index, ...], channel: Index, lanes: int) -> None:
        """``lanes`` output channels of the output pixel at ``place`` (image, row, column)."""
        fn, room = self.fn, _lane_room(self.outputs)
        kh, kw = self.window
        corner = (place[0], *(fn.mul(place[1 + a], self.op.stride[a]) for a in (0, 1)))
        strides = dense_strides(self.x.shape)
        first = access.offset(fn, corner, strides[:3])
        wide = self.bias.dtype == "int64"
        bias = fn.at(fn.tables, fn.add(kh * kw * room * 2, fn.mul(channel, self.bias.itemsize)))
        owed = fn.load(bias, vector_type(ELEMENTS[self.bias.dtype], lanes), 4)
        start = constant(vector_type(I32, lanes), 0) if wide else owed

        def tap(row: Index, column: Index, total: Any) -> Any:
            dilated = (fn.mul(row, self.op.dilation[0]), fn.mul(column, self.op.dilation[1]))
            pixel = fn.add(first, access.offset(fn, dilated, strides[1:3]))
            number = fn.add(fn.mul(row, kw), column)
            place = fn.at(fn.tables, fn.add(fn.mul(number, room * 2), fn.mul(channel, 2)))
            w = fn.b.sext(fn.load(place, vector_type(I16, lanes), 2), total.type)
            return fn.b.add(total, fn.b.mul(self._activations(pixel, channel, lanes), w))

        if kh * kw <= UNROLLED_TAPS:
            for number in range(kh * kw):
                start = tap(number // kw, number % kw, start)
        else:
            start = fn.loop(
                0, kh, 1, lambda row, t: fn.loop(0, kw, 1, lambda c, u: [tap(row, c, u)], [t]), [start]
            )[0]
        if wide:
            start = fn.b.add(fn.b.sext(start, owed.type), owed)
        self.finisher.store(start, access.offset(fn, place, self.pixels), channel, lanes)

    def _activations(self, pixel: Index, channel: Index, lanes: int) -> Any:
        """Input channels of ``lanes`` output channels, as int32."""
        type_ = vector_type(I32, lanes)
        if self.multiplier == 1:
            place = self.fn.element(self.pointer, self.fn.add(pixel, channel), self.x.dtype)
            x = self.fn.load(place, vector_type(ELEMENTS[self.x.dtype], lanes))
        else:
            x = self._repeated(pixel, channel, lanes)
        return self.fn.b.zext(x, type_) if self.x.dtype == "uint8" else self.fn.b.sext(x, type_)

    def _repeated(self, pixel: Index, channel: Index, lanes: int) -> Any:
        """Each input channel ``multiplier`` times."""
        fn = self.fn
        loaded = []
        for lane in range(lanes):
            output = fn.add(channel, lane)
            source = (
                output // self.multiplier
                if isinstance(output, int)
                else fn.b.udiv(output, output.type(self.multiplier))
            )
            place = fn.element(self.pointer, fn.add(pixel, source), self.x.dtype)
            loaded.append(fn.load(place, ELEMENTS[self.x.dtype]))
        if lanes == 1:
            return loaded[0]
        vector = vector_type(ELEMENTS[self.x.dtype], lanes)(None)
        for lane, value in enumerate(loaded):
            vector = fn.b.insert_element(vector, value, I32(lane))
        return vector
