"""Kernel skeletons: each owns the loops of one kind of root and applies the elementwise nodes after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qimport import prim
from qimport.codegen.elementwise import EMITTERS
from qimport.codegen.kernels import (
    detection,
    elementwise,
    fft,
    float_mac,
    gather,
    layer_norm16,
    movement,
    ordering,
    reduce,
    rescaled_product,
    resize,
    row_sum,
    softmax,
    window,
)
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.ir.graph import Operation
from qimport.lower.kernel import Kernel

Skeleton = Callable[[Any, str, Kernel, Target, TableLayout], Any]

SKELETONS: dict[type[Operation], Skeleton] = {
    **dict.fromkeys(EMITTERS, elementwise.emit),
    **dict.fromkeys(gather.GATHERS, movement.emitter(gather.GATHERS)),
    **dict.fromkeys(movement.MOVES, movement.emitter(movement.MOVES)),
    prim.Fft: fft.emit,
    prim.FloatMac: float_mac.emit,
    prim.Reduce: reduce.emit,
    prim.Detect: detection.emit,
    prim.ArgReduce: ordering.emit_arg_reduce,
    prim.Cumulate: ordering.emit_cumulate,
    prim.TopK: ordering.emit_top_k,
    prim.Interpolate: resize.emit_interpolate,
    prim.Sample: resize.emit_sample,
    prim.RescaledProduct: rescaled_product.emit,
    prim.RowSum: row_sum.emit,
    prim.LayerNorm16: layer_norm16.emit,
    prim.Softmax: softmax.emit,
    prim.Window: window.emit,
}
"""What adds ``void name(ptr operand..., ptr tables, ptr result)`` to a module, by the kernel's root."""
