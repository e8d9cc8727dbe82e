"""``qnn.compare``: the six relations between two tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.elements import RELATIONS, Relation, broadcast
from qimport.fixedpoint import Int, multiply_by_quantized_multiplier, quantize_multiplier
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor

LEFT_SHIFT = 8
"""How far codes are shifted before they are scaled."""

PLAIN = ("int32", "int64", "float16", "float32")
"""Element types of all relations that are compared as they are; bool has equal and not_equal only."""

SCALED = ("int8", "uint8")
"""Element types whose codes are scaled; of int16 only for equal and not_equal."""


def dtypes(kind: str) -> tuple[str, ...]:
    """Element types that the interpreter's kernel of a relation takes."""
    return (*SCALED, "int16", *PLAIN, *(("bool",) if kind in ("equal", "not_equal") else ()))


@operation
@dataclass(frozen=True)
class Compare(QnnOperation):
    """Whether the relation holds between two operands that broadcast as in NumPy, as bool.

    int8, uint8, and int16 for ``equal`` and ``not_equal``: codes are scaled to a common measure,
    ``double_away``, and compared as int32:

        rescale((a - z_a) << 8, s_a)   and   rescale((b - z_b) << 8, s_b)

    Other element types, and int16 codes for the orderings, are compared as they are. Nothing but
    ``not_equal`` holds of a NaN.

    C1 the operands have one element type that the relation takes (:func:`dtypes`), the result is bool. C2 the
    shapes broadcast to the result's. C3 scaled operands have one scale each, under 1.
    """

    NAME = "qnn.compare"
    TFLITE = tuple(kind.upper() for kind in RELATIONS)

    kind: Relation

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        known = self.kind in RELATIONS and a.dtype in dtypes(self.kind)
        require(known and a.dtype == b.dtype and out.dtype == "bool", "C1", f"no {self.kind} of {a} and {b}")
        shape = broadcast(a.shape, b.shape)
        require(shape == out.shape, "C2", f"{a.shape} and {b.shape} do not give {out.shape}")
        for x in (a, b) if self.scales(call) else ():
            require_per_tensor("C3", x)
            require(x.quant.scale < 1, "C3", f"the scale of {x} is not under 1")

    def scales(self, call: Call) -> bool:
        """Whether codes are scaled before they are compared."""
        dtype = call.input(0).dtype
        return dtype in SCALED or (dtype == "int16" and self.kind in ("equal", "not_equal"))

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        a, b = call.array(0), call.array(1)
        if self.scales(call):
            a, b = _measure(a, call, 0), _measure(b, call, 1)
        return (np.asarray(RELATIONS[self.kind](a, b), np.bool_),)


def _measure(codes: Array, call: Call, index: int) -> Int:
    quant = call.input(index).quant
    raised = (codes.astype(np.int64) - quant.zero_point) << LEFT_SHIFT
    return multiply_by_quantized_multiplier(raised, *quantize_multiplier(quant.scale))
