"""``qnn.dense``: the FULLY_CONNECTED operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int, Rounding
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.convolution import WeightedOperation, effective_scales


@operation
@dataclass(frozen=True)
class Dense(WeightedOperation):
    """Matrix product with a weight matrix.

    Operands: x (flattened to [rows, K]), w [N, K], bias int32[N] or None (counts as zeros). The result has
    rows * N elements, N along its last dimension; which rank, its type says.

        acc[r,n] = wrap32(bias[n] + sum (x - z_x) * (w - z_w))
        code     = clamp(rescale(acc, s_x * s_w[n] / s_out) + z_out, low, high)

    reference   the scale in float64, rescale ``float64_away``, z_out added modulo 2^32: an accumulator that
                leaves int32 gives INT32_MIN and then, with z_out < 0, the high bound
                (``reference_integer_ops::FullyConnected`` and ``FullyConnectedPerChannel``)
    builtin     fixed point; with one weight scale s_x * s_w is rounded to float32, with several it is not;
                ``double_up`` (ruy). Ruy rounds so on CPUs with AVX; without AVX its portable path rounds
                once.
    xnnpack     every step of the scale in float32, ``float32_even``, bounds as XNNPACK rounds them; requires
                every effective scale < 256; in uint8 a bias of one scale

    C1 x, w and the result are int8 or all uint8; w has rank 2. C2 K divides the size of x; the result has
    rows * N elements and N along its last dimension. C3 x and the result have one scale; w has one, or, in
    int8, N with zero points 0. C4 bias is int32[N] with zero point 0. C5 the activation is one of the
    schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.dense"
    TFLITE = ("FULLY_CONNECTED",)
    WEIGHT_AXIS = 0
    NEEDS_BIAS_TO_DELEGATE = False

    activation: str = "NONE"
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(w.shape) == 2, "C1", "the weights must have rank 2")
        outputs, depth = w.shape
        require(depth > 0 and x.size % depth == 0, "C2", f"{x} does not consist of rows of {depth}")
        fits = bool(out.shape) and out.shape[-1] == outputs and out.size == x.size // depth * outputs
        require(fits, "C2", f"the result must hold {x.size // depth} rows of {outputs}")
        self.verify_weights(call, outputs)

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """See the class."""
        return "double_up" if self.kernel_family(call) == "builtin" else "float64_away", None, 0

    def classic_scales(self, call: Call) -> tuple[float, ...]:
        """See the class."""
        one_scale = len(call.input(1).quant.scales) == 1
        narrow = self.kernel_family(call) == "builtin" and one_scale
        return effective_scales(call, narrow_product=narrow)

    def wants_matching_bias(self, call: Call) -> bool:
        """In uint8; int8 weights of one scale become weights of N scales before they are compared."""
        return call.input(0).dtype == "uint8"

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One matrix product."""
        rows = x.reshape(-1, w.shape[1]).astype(np.float64)
        acc: npt.NDArray[np.float64] = rows @ w.astype(np.float64).T
        return acc.reshape(call.output.shape)
