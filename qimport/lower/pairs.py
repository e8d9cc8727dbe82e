"""Functions of two 8-bit values become weighted sums or scaled codes, which all pairs of codes prove.

A residual addition is some sixty instructions of fixed point: two operands raised, rescaled, added, rescaled
and clamped, with four roundings. But it is a function of two codes, 65536 pairs, and nearly always equal to
``prim.pair_sum`` with well-chosen factors: those of the same arithmetic over the reals, with many fraction
bits. For given factors each pair admits an interval of offsets, and any offset in all of them will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport import prim
from qimport.fixedpoint import Int
from qimport.ir.graph import Graph, Node, Operation, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.lower.cones import Cones
from qimport.lower.products import Bilinear, between, equal_scaling, offset_bounds
from qimport.lower.rule import Emitter, plain
from qimport.numerics import Numerics
from qimport.prim.pair import CODES, FACTOR_BITS, LARGEST_SHIFT, SMALLEST_SHIFT, STEP_BITS
from qimport.qnn.unary import code_range

Reals = npt.NDArray[np.float64]

TRIALS = (0.0, 2.0**-22, -(2.0**-22))
"""Relative changes of both factors to try: ties that are rounded away from zero want slightly larger ones."""

FLAT = 1e-9
"""A coefficient of the product that is smaller than the others by this factor is none."""

OFTEN = 4
"""How often an operand of a product must be repeated for tables of it to pay."""

FEWEST_NODES = 3
"""Smaller cones are cheap as they are."""


def combine_pairs(graph: Graph, _: Numerics) -> Graph:
    """Replace 8-bit values that are functions of two others by what :class:`_Pairs` finds equal to them.

    Nodes that nobody reads any more stay.
    """
    pairs = _Pairs(graph)

    def apply(emit: Emitter, site: Site) -> Sequence[Value] | None:
        made = pairs.replacement(emit, site)
        return None if made is None else (made,)

    return rewrite(graph, Emitter(), apply)


class _Pairs:
    """``sources``: the 8-bit values, at most two, from which elementwise nodes compute a value.

    ``moved``: what became of results that have been replaced.
    """

    def __init__(self, graph: Graph) -> None:
        self.cones = Cones(graph)
        self.sources: dict[Value, tuple[Value, ...]] = {}
        self.moved: dict[Value, Value] = {}
        for node in graph.nodes:
            self.sources.update(dict.fromkeys(node.outputs, self._sources(node)))

    def _sources(self, node: Node) -> tuple[Value, ...]:
        """The 8-bit values that a node's result depends on; none where it is no such function."""
        found: dict[Value, None] = {}
        for value in self.cones.operands(node) or ():
            own = (value,) if value.type.dtype in CODES else self.sources.get(value, ())
            if not own or (isinstance(node.op, prim.Reshape) and not _aligned(value, node.outputs[0])):
                return ()
            found.update(dict.fromkeys(own))
        return tuple(found) if len(found) <= 2 else ()

    def replacement(self, emit: Emitter, site: Site) -> Value | None:
        """What takes the place of a node's result, if anything."""
        result = site.node.outputs[0]
        sources = self.sources[result]
        if result.type.dtype not in CODES or len(sources) != 2:
            return None
        if len(self.cones.nodes(result, sources)) < FEWEST_NODES:
            return None
        shape = np.broadcast_shapes(*(value.type.shape for value in sources))
        if _stripped(shape) != _stripped(result.type.shape):
            return None
        real = self._over_reals(result, sources)
        if real is None:
            return None
        make = self._sum if abs(real.ab) <= FLAT * max(abs(real.a), abs(real.b)) else self._product
        made = make(emit, result, sources, real)
        if made is None:
            return None
        self.moved[result] = emit.reshape(made, result.type.shape)
        return self.moved[result]

    def _sum(self, emit: Emitter, result: Value, sources: Sequence[Value], real: Bilinear) -> Value | None:
        codes = self._codes(result, sources)
        factors = equal_sum(codes, [code_range(value.type.dtype) for value in sources], (real.a, real.b))
        if factors is None:
            return None
        op = prim.PairSum(factors.shift, int(codes.min()), int(codes.max()))
        constant = emit.constant(np.array([factors.a, factors.b, factors.offset], np.int64))
        return self._emit(emit, op, sources, [*self._operands(sources), constant], result)

    def _product(
        self, emit: Emitter, result: Value, sources: Sequence[Value], real: Bilinear
    ) -> Value | None:
        """Of one value that is repeated often."""
        scaled, repeated = sources
        if scaled.type.size < repeated.type.size:
            scaled, repeated, real = repeated, scaled, real.swapped()
        if scaled.type.size < OFTEN * repeated.type.size:
            return None
        operands = code_range(scaled.type.dtype), code_range(repeated.type.dtype)
        found = equal_scaling(self._codes(result, (scaled, repeated)), operands, real)
        if found is None:
            return None
        first, second = self._operands((scaled, repeated))
        tables = [emit.lut(second, table) for table in (found.lows, found.highs)]
        rest = emit.constant(np.array([found.rest], np.int32))
        return self._emit(emit, found.op, sources, [first, *tables, rest], result)

    def _operands(self, sources: Sequence[Value]) -> list[Value]:
        """The sources in the new graph."""
        return [self.moved.get(value, value) for value in sources]

    @staticmethod
    def _emit(
        emit: Emitter, op: Operation, sources: Sequence[Value], operands: Sequence[Value], result: Value
    ) -> Value:
        shape = np.broadcast_shapes(*(value.type.shape for value in sources))
        return emit.emit(op, operands, plain(result.type).with_shape(shape))

    def _codes(self, result: Value, sources: Sequence[Value]) -> Int:
        """The result for all pairs of codes."""
        first, second = (code_range(value.type.dtype).astype(value.type.numpy) for value in sources)
        pairs = {sources[0]: first[:, np.newaxis], sources[1]: second[np.newaxis, :]}
        return self.cones.evaluate(result, pairs).astype(np.int64)

    def _over_reals(self, result: Value, sources: Sequence[Value]) -> Bilinear | None:
        """The same arithmetic over the reals; None if it is not known to be bilinear."""
        known: dict[Value, Reals] = dict(
            zip(sources, (np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])), strict=True)
        )
        for node in self.cones.nodes(result, sources):
            rule = REAL_ARITHMETIC.get(type(node.op))
            if rule is None:
                return None
            operands = [known[v] if v in known else _real_constant(v) for v in node.inputs if v is not None]
            value = rule(node.op, *operands)
            if value is None:
                return None
            known[node.outputs[0]] = value
        none, first, second, both = (float(x) for x in known[result])
        return Bilinear(none, first - none, second - none, both - first - second + none)


@dataclass(frozen=True)
class PairFactors:
    """(a * code + b * code + offset) >> shift."""

    a: int
    b: int
    offset: int
    shift: int


def equal_sum(codes: Int, operands: Sequence[Int], weights: tuple[float, float]) -> PairFactors | None:
    """What makes ``prim.pair_sum`` give ``codes`` int64[256, 256], if it is found.

    ``weights`` are the factors as real numbers, ``operands`` the codes along both dimensions.
    """
    largest = max(map(abs, weights))
    shift = min(FACTOR_BITS - 1 - math.floor(math.log2(largest)), LARGEST_SHIFT) if largest > 0 else 0
    if shift < SMALLEST_SHIFT:
        return None
    a, b = operands[0][:, np.newaxis], operands[1][np.newaxis, :]
    for change in TRIALS:
        m, n = (round(math.ldexp(weight * (1 + change), shift)) for weight in weights)
        offset = _common_offset(codes, a * m + b * n, shift)
        if offset is not None and abs(offset) + 128 * (abs(m) + abs(n)) < 1 << (STEP_BITS + shift):
            return PairFactors(m, n, offset, shift)
    return None


def _common_offset(codes: Int, sums: Int, shift: int) -> int | None:
    """An offset with which every sum, shifted, is the code; beyond it where the code is a bound."""
    least, most = offset_bounds(codes, sums, shift, 1 << 62)
    found = between(least.max(), most.min())
    return None if found is None else int(found)


def _aligned(a: Value, b: Value) -> bool:
    """Whether a reshape only adds or removes leading dimensions, so that broadcasting sees no difference."""
    return _stripped(a.type.shape) == _stripped(b.type.shape)


def _stripped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without leading dimensions of 1."""
    start = next((index for index, size in enumerate(shape) if size != 1), len(shape))
    return shape[start:]


def _real_constant(value: Value) -> Reals:
    assert value.data is not None
    return value.data.reshape(-1)[:1].astype(np.float64)


def _real_rescale(_: prim.Rescale, x: Reals, factor: Reals, *exponent: Reals) -> Reals:
    return x * factor * (2.0 ** (exponent[0] - 31) if exponent else 1.0)


def _real_binary(op: prim.Binary, a: Reals, b: Reals) -> Reals | None:
    function = _REAL_BINARY.get(op.kind)
    return None if function is None else function(a, b)


_REAL_BINARY: dict[str, Callable[[Reals, Reals], Reals]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "shift_left": lambda a, b: a * 2.0**b,
    "shift_right": lambda a, b: a / 2.0**b,
}

REAL_ARITHMETIC: dict[type[Any], Callable[..., Reals | None]] = {
    prim.Binary: _real_binary,
    prim.Cast: lambda _, x: x,
    prim.Clamp: lambda op, x: x + op.zero_point,
    prim.Reshape: lambda _, x: x,
    prim.Rescale: _real_rescale,
    prim.ToInt: lambda _, x: x,
}
"""What operations would be without rounding, wrapping and bounds."""
