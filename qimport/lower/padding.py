"""Makes the padding of multiply-accumulate nodes explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qimport import prim
from qimport.ir.graph import Graph, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter
from qimport.numerics import Numerics

NO_PADDING = ((0, 0), (0, 0))


def explicit_padding(graph: Graph, _: Numerics) -> Graph:
    """Let every padded ``prim.mac`` read a ``prim.pad`` filled with its input zero point instead.

    A tap on such an element contributes zero, as outside the image; kernels then see no border.
    """

    def expand(emit: Emitter, site: Site) -> Sequence[Value] | None:
        op, node = site.node.op, site.node
        if not isinstance(op, prim.Mac) or op.padding == NO_PADDING:
            return None
        x = site.operand(0)
        (top, bottom), (left, right) = op.padding
        batch, height, width, channels = x.type.shape
        shape = (batch, top + height + bottom, left + width + right, channels)
        pad = prim.Pad((0, top, left, 0), (0, bottom, right, 0), op.input_zero)
        padded = emit.emit(pad, (x,), TensorType(x.type.dtype, shape), f"{x.name}.padded" if x.name else "")
        mac = replace(op, padding=NO_PADDING)
        return (emit.emit(mac, (padded, *site.operands[1:]), node.outputs[0].type),)

    return rewrite(graph, Emitter(), expand)
