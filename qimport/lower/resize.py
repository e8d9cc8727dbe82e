"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: places and weights become constants."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.resize import ResizeBilinear, ResizeNearestNeighbor


@rule(ResizeNearestNeighbor)
def lower_resize_nearest_neighbor(emit: Emitter, op: ResizeNearestNeighbor, use: Use) -> Value:
    """One pixel for every result."""
    before, after = use.call.input(0).shape, use.output.shape
    if before == after:
        return use.operand(0)
    places = [emit.constant(op.places(before[axis], after[axis])) for axis in (1, 2)]
    return emit.emit(prim.Sample(), (use.operand(0), *places), plain(use.output))


@rule(ResizeBilinear)
def lower_resize_bilinear(emit: Emitter, op: ResizeBilinear, use: Use) -> Value:
    """Four pixels for every result."""
    constants = []
    for axis in (1, 2):
        line = op.line(use.call, axis)
        constants += [emit.constant(array) for array in (line.first, line.second, line.weight)]
    blend = prim.Interpolate(op.rule(use.call))
    return emit.emit(blend, (use.operand(0), *constants), plain(use.output))
