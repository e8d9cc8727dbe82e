"""Code of the elementwise primitives: one emitter each, on vectors of any width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qimport import prim
from qimport.codegen import arithmetic, byte_requantize
from qimport.codegen.activation16 import emit_activation16
from qimport.codegen.conversion import convert
from qimport.codegen.function import ELEMENTS, F32, F64, Index, KernelFunction
from qimport.codegen.fused import fused_multiply_add
from qimport.codegen.lookup import interpolate, look_up
from qimport.codegen.math import emit_function
from qimport.codegen.pair_sum import PairSummer
from qimport.codegen.requantize import Rescaler
from qimport.codegen.rounding import divide_away, to_int32
from qimport.codegen.scale_codes import scale_codes
from qimport.codegen.sections import load_section
from qimport.codegen.tables import DivisionFacts, TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import (
    clamp_signed,
    leading_zeros,
    like,
    retyped,
)
from qimport.errors import CompilerBug
from qimport.ir.graph import Graph, Node, Operation, Value
from qimport.ir.types import INTEGER_RANGE


def preferred_lanes(graph: Graph, target: Target) -> int:
    """Elements per vector step: a register of bytes where nothing is wider, otherwise two of 32-bit lanes.

    Two registers per step hide latencies: a third of the time of a requantization.
    """
    values = {*graph.inputs, *(value for node in graph.nodes for value in node.outputs)}
    bytes_only = all(value.type.itemsize == 1 for value in values)
    return target.vector_bytes if bytes_only else target.vector_bytes // 2


@dataclass
class Emission:
    """What every emitter gets: the function, known values, and which elements are computed."""

    fn: KernelFunction
    values: dict[Value, Any]
    channel: Index
    lanes: int
    layout: TableLayout
    repeat: int = 1
    doubts: list[Any] | None = None

    def operand(self, node: Node, position: int) -> Any:
        """An operand's lanes; scalar and per-channel constants are loaded from the tables on first use."""
        value = node.inputs[position]
        if value is None:
            raise CompilerBug(f"{node.op.NAME}: operand {position} is missing")
        if value not in self.values:
            self.values[value] = self._constant(value)
        return self.values[value]

    def _constant(self, value: Value) -> Any:
        if not value.is_constant:
            raise CompilerBug(f"operand %{value.name} of an elementwise node was not loaded")
        section = self.layout.section(value)
        if section.count != 1 and section.count != value.type.shape[-1]:
            raise CompilerBug(f"constant %{value.name} is neither uniform nor per channel")
        return load_section(self.fn, section, self.channel, self.lanes, self.repeat)


Emitter = Callable[[Emission, Node, Any], Any]


def emit_nodes(
    fn: KernelFunction,
    nodes: Sequence[Node],
    values: dict[Value, Any],
    channel: Index,
    lanes: int,
    layout: TableLayout,
    repeat: int = 1,
    doubts: list[Any] | None = None,
) -> None:
    """Compute elementwise ``nodes`` on ``lanes`` consecutive elements of a row.

    ``values`` holds the lanes of every tensor operand (a scalar for one lane) and receives every result.
    Scalar and per-channel constants come from the tables at ``channel``, the last index of the first lane; it
    must be even for more than one lane. Lanes past the last channel, up to a multiple of 64, may be computed.
    With ``repeat`` the lanes are that many times the same channels. With ``doubts``, bytes may be requantized
    as :mod:`qimport.codegen.byte_requantize` speculates, which appends to them what is to be tested.
    """
    emission = Emission(fn, values, channel, lanes, layout, repeat, doubts)
    for node in nodes:
        if node.outputs[0] not in values:
            values[node.outputs[0]] = EMITTERS[type(node.op)](emission, node, node.op)


def _binary(at: Emission, node: Node, op: prim.Binary) -> Any:
    return arithmetic.binary(at.fn, op.kind, _dtype(node, 0), at.operand(node, 0), at.operand(node, 1))


def _compare(at: Emission, node: Node, op: prim.Compare) -> Any:
    return arithmetic.compare(at.fn, op.kind, _dtype(node, 0), at.operand(node, 0), at.operand(node, 1))


def _select(at: Emission, node: Node, op: prim.Select) -> Any:
    return arithmetic.select(at.fn, *(at.operand(node, position) for position in range(3)))


def _fma(at: Emission, node: Node, op: prim.Fma) -> Any:
    return fused_multiply_add(at.fn, *(at.operand(node, position) for position in range(3)))


def _activation16(at: Emission, node: Node, op: prim.Activation16) -> Any:
    return emit_activation16(at.fn, op.kind, op.integer_bits, at.operand(node, 0))


def _cast(at: Emission, node: Node, op: prim.Cast) -> Any:
    return convert(at.fn, at.operand(node, 0), _dtype(node, 0), node.outputs[0].type.dtype)


def _dtype(node: Node, position: int) -> str:
    """Element type of an operand."""
    value = node.inputs[position]
    assert value is not None
    return value.type.dtype


def _rescale(at: Emission, node: Node, op: prim.Rescale) -> Any:
    clamp = at.layout.clamps.get(node)
    if _as_bytes(at, node):
        assert clamp is not None
        requantizer = byte_requantize.ByteRequantizer(at.fn, node, at.layout, at.channel, at.lanes, at.repeat)
        result, doubts = requantizer.emit(at.operand(node, 0))
        at.values[clamp.outputs[0]] = result
        if at.doubts is not None:
            at.doubts.extend(doubts)
        return result
    result = Rescaler(at.fn, node, at.layout, at.channel, at.lanes, at.repeat).emit(at.operand(node, 0))
    if clamp is not None:
        at.values[clamp.outputs[0]] = _narrowed(at, clamp, result)
    return result


def _as_bytes(at: Emission, node: Node) -> bool:
    """Whether a rescale is for :mod:`qimport.codegen.byte_requantize`: where doubts do not matter."""
    target = at.fn.target
    certain = at.doubts is not None or not byte_requantize.speculates(target)
    return certain and at.lanes % target.lanes == 0 and byte_requantize.applies(at.layout, node, target)


def _clamp(at: Emission, node: Node, op: prim.Clamp) -> Any:
    """The bounds move by the zero point instead of the operand, which could overflow."""
    lowest, highest = INTEGER_RANGE["int32"]
    low, high = op.low - op.zero_point, op.high - op.zero_point
    if not (lowest <= op.zero_point <= highest and low <= highest and high >= lowest):
        raise CompilerBug(f"{op} moves every int32 out of its bounds")
    bounded = clamp_signed(at.fn, at.operand(node, 0), max(low, lowest), min(high, highest))
    return _narrowed(at, node, at.fn.b.add(bounded, like(bounded, op.zero_point)))


def _narrowed(at: Emission, node: Node, value: Any) -> Any:
    """int32 lanes as the element type of the node's result."""
    element = ELEMENTS[node.outputs[0].type.dtype]
    return value if element.width == 32 else at.fn.b.trunc(value, retyped(value, element))


def _lut(at: Emission, node: Node, op: prim.Lut) -> Any:
    table = node.inputs[1]
    assert table is not None
    section = at.layout.section(table)
    place = at.fn.at(at.fn.tables, section.offset)
    return look_up(at.fn, place, at.operand(node, 0), at.lanes, section.dtype)


def _lut16(at: Emission, node: Node, op: prim.Lut16) -> Any:
    table = node.inputs[1]
    assert table is not None
    place = at.fn.at(at.fn.tables, at.layout.section(table).offset)
    return interpolate(at.fn, place, at.operand(node, 0), at.lanes)


def _pair_sum(at: Emission, node: Node, op: prim.PairSum) -> Any:
    def number(role: str) -> Any:
        return load_section(at.fn, at.layout.section(node, role), 0, 1)

    return PairSummer(at.fn, node, number).emit(at.operand(node, 0), at.operand(node, 1))


def _scale_codes(at: Emission, node: Node, op: prim.ScaleCodes) -> Any:
    return scale_codes(at.fn, node, *(at.operand(node, position) for position in range(4)))


def _leading_zeros(at: Emission, node: Node, op: prim.LeadingZeros) -> Any:
    return leading_zeros(at.fn, at.operand(node, 0))


def _math(at: Emission, node: Node, op: prim.Math) -> Any:
    return emit_function(at.fn, op.kind, at.operand(node, 0))


def _div_round(at: Emission, node: Node, op: prim.DivRound) -> Any:
    facts = at.layout.facts[node]
    assert isinstance(facts, DivisionFacts)
    element = F32 if facts.in_float32 else F64
    return divide_away(at.fn, at.operand(node, 0), at.operand(node, 1), element)


def _to_int(at: Emission, node: Node, op: prim.ToInt) -> Any:
    return to_int32(at.fn, at.operand(node, 0), op.rounding, op.saturate, op.nan_to_zero)


EMITTERS: dict[type[Operation], Emitter] = {
    prim.Activation16: _activation16,
    prim.Binary: _binary,
    prim.Cast: _cast,
    prim.Clamp: _clamp,
    prim.Compare: _compare,
    prim.DivRound: _div_round,
    prim.Fma: _fma,
    prim.LeadingZeros: _leading_zeros,
    prim.Lut: _lut,
    prim.Lut16: _lut16,
    prim.Math: _math,
    prim.PairSum: _pair_sum,
    prim.Rescale: _rescale,
    prim.ScaleCodes: _scale_codes,
    prim.Select: _select,
    prim.ToInt: _to_int,
}
"""How each elementwise primitive becomes code."""
