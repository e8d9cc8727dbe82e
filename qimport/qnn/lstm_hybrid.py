"""The arithmetic of the LSTM operators for float32 tensors with 8-bit weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.ir.types import TensorType
from qimport.qnn.lstm_float import ACTIVATIONS, PROJECTION, FloatLstm
from qimport.qnn.lstm_shape import GATES, gate_operand
from qimport.qnn.row_quantization import quantize_rows
from qimport.summation import Float32

WEIGHTS = (
    *(gate_operand(gate, kind) for kind in ("input", "recurrent") for gate in GATES),
    *(gate_operand(gate, "peephole") for gate in GATES if gate != "cell"),
    PROJECTION,
)
"""Positions of the 8-bit operands."""


@dataclass(frozen=True)
class HybridLstm(FloatLstm):
    """As :class:`FloatLstm` but for the products with weights, which have one scale per matrix.

        W x     rows of x become int8 (:func:`qimport.qnn.row_quantization.quantize_rows`, one row per batch),
                float32(integer sums) * float32(scale of the row * scale of the weights)
        p * c   float32(p * scale of p) * c

    h is quantized before every step, o * activation(c) before its projection. Codes of uint8 weights are
    read as int8: that is what old converters wrote. ``scales`` has the scale of every operand's weights.

    C3 weights are int8 or uint8 with one scale, all other tensors float32. C4 as for floats.
    """

    scales: tuple[float, ...]
    asymmetric: bool

    def verify(self, call: Call) -> None:
        """Check C3, C4."""
        for position, type_ in enumerate((*call.inputs, *call.outputs)):
            wanted = ("int8", "uint8") if position in WEIGHTS else ("float32",)
            require(type_ is None or type_.dtype in wanted, "C3", f"{type_} is not {' or '.join(wanted)}")
            if type_ is not None and position in WEIGHTS:
                single = type_.quantization is not None and len(type_.quant.scales) == 1
                require(single, "C3", f"{type_} needs one scale")
        require(self.activation in ACTIVATIONS, "C4", f"the activation {self.activation} has no kernel")

    def product(self, x: Float32, position: int, arrays: Sequence[Array | None]) -> Float32:
        """See the class."""
        w = arrays[position]
        assert w is not None
        rows = quantize_rows(x, asymmetric=self.asymmetric)
        return rows.product(w.view(np.int8), self.scales[position])

    def peephole(self, weights: Array, position: int) -> Float32:
        """See the class."""
        return np.asarray(weights.view(np.int8).astype(np.float32) * np.float32(self.scales[position]))


def weight_scales(inputs: Sequence[TensorType | None]) -> tuple[float, ...]:
    """The scale of every operand, 0 for those that have none or several."""
    found = [None if type_ is None else type_.quantization for type_ in inputs]
    return tuple(0.0 if q is None or len(q.scales) != 1 else q.scales[0] for q in found)
