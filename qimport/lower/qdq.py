"""Removes conversions between quantizations that change no byte.

Whether one does is not derived from scales but evaluated: every code goes through the operations themselves,
in whole blocks and in leftovers of blocks, in the numerics mode of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport.ir.graph import Array, Builder, Call, Graph, Node, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.ir.types import TensorType
from qimport.numerics import Numerics
from qimport.qnn.quantize import (
    DEQUANTIZE_BLOCK,
    QUANTIZE_BLOCK,
    REQUANTIZE_BLOCK,
    Dequantize,
    Quantize,
    Requantize,
)
from qimport.qnn.unary import code_range

BLOCKS = (QUANTIZE_BLOCK, DEQUANTIZE_BLOCK, REQUANTIZE_BLOCK)
LARGEST_BLOCK, SMALLEST_BLOCK = max(BLOCKS), min(BLOCKS)


def remove_conversions(graph: Graph, numerics: Numerics) -> Graph:
    """The graph without requantizing to the same type and DEQUANTIZE -> QUANTIZE back to it, where exact.

    QUANTIZE -> DEQUANTIZE is never removed: it rounds.
    """

    def remove(_: Builder, site: Site) -> Sequence[Value] | None:
        chain = conversion_chain(site)
        if not chain:
            return None
        source = chain[0].inputs[0]
        result = site.node.outputs[0].type
        if source is None or source.type != result or not is_identity(chain, result, numerics):
            return None
        return (source,)

    return rewrite(graph, Builder(), remove)


def conversion_chain(site: Site) -> tuple[Node, ...]:
    """The nodes from codes to codes that end at this one."""
    node = Node(site.node.op, site.operands, site.node.outputs)
    if isinstance(node.op, Requantize):
        return (node,)
    producer = site.producer(node.inputs[0]) if isinstance(node.op, Quantize) else None
    return (producer, node) if producer is not None and isinstance(producer.op, Dequantize) else ()


def is_identity(chain: Sequence[Node], type_: TensorType, numerics: Numerics) -> bool:
    """Whether every code of an 8- or 16-bit ``type_`` leaves ``chain`` as it entered, wherever it stands."""
    if type_.itemsize > 2 or type_.quant.per_channel:
        return False
    codes = code_range(type_.dtype).astype(type_.numpy)
    parts = [codes]  # a multiple of every block, so whole blocks only
    if type_.size % LARGEST_BLOCK:
        parts += np.split(codes, codes.size // (SMALLEST_BLOCK // 2))  # leftovers only
    return all(np.array_equal(_run(chain, part, numerics), part) for part in parts)


def _run(chain: Sequence[Node], codes: Array, numerics: Numerics) -> Array:
    for node in chain:
        call = node.call()
        types = (call.input(0).with_shape(codes.shape),), (call.output.with_shape(codes.shape),)
        (codes,) = node.op.evaluate(Call(*types, (codes,), numerics))
    return codes
