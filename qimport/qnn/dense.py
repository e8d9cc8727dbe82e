"""``qnn.dense``: the FULLY_CONNECTED operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qimport.fixedpoint import Rounding
from qimport.ir.graph import Call, operation
from qimport.qnn.geometry import DenseGeometry, has_bias
from qimport.qnn.requantization import matrix_rounding
from qimport.qnn.weighted import WeightedOperation, effective_scales

_PER_BYTE = {"int4": 2, "int2": 4}


@operation
@dataclass(frozen=True)
class Dense(DenseGeometry, WeightedOperation):
    """Matrix product with a weight matrix: DenseGeometry of integers.

        acc[r,n] = bias[n] + sum (x - z_x) * (w - z_w), modulo 2^32 (int16 with int64 bias: 2^64)
        code     = clamp(rescale(acc, s_x * s_w[n] / s_out) + z_out, low, high)

    reference   the scale in float64, rescale ``float64_away``, z_out added modulo 2^32: an accumulator that
                leaves int32 gives INT32_MIN and then, with z_out < 0, the high bound
                (``reference_integer_ops::FullyConnected`` and ``FullyConnectedPerChannel``)
    builtin     fixed point; with one weight scale s_x * s_w is rounded to float32, with several it is not;
                ``double_up`` (ruy). Ruy rounds so on CPUs with AVX; without AVX its portable path rounds
                once. int16 with an int64 bias, or with
                weights that have a zero point: as ``reference``. An int16 result of uint8 takes z_out as 0.
                builtin-arm64: ``exact_up`` in place of ``double_up``, but for one row with N >= 4 and K >= 8;
                int16 only with scales under 1; what leaves int32 of ``float64_away`` saturates
    xnnpack     every step of the scale in float32, ``float32_even``, bounds as XNNPACK rounds them; requires
                every effective scale < 256; in uint8 a bias of one scale;
                takes int4 and int2 weights if rows are whole bytes, int2 only with a scale per row

    C1 x is int8, uint8 or int16; the result is of that type, or int16 beside uint8; w is uint8 beside uint8,
    otherwise int8, int4 or int2. C2 see DenseGeometry. C3 x and the result have one scale; w has one, or N
    with zero points 0; only weights of 8 bits and one scale have a zero point; int16 input and result have
    none. C4 bias is int32[N], or int64[N] beside int16, with zero point 0. C5 the activation is one of the
    schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    ``bias_read_as_int64``: the file has an int32 bias beside int16, but does not say so in its options.
    """

    NAME = "qnn.dense"
    TFLITE = ("FULLY_CONNECTED",)
    WEIGHT_TYPES: ClassVar = {
        "int8": ("int8", "int4", "int2"),
        "uint8": ("uint8",),
        "int16": ("int8", "int4", "int2"),
    }
    RESULT_TYPES: ClassVar = {"uint8": ("uint8", "int16")}
    DELEGATED_WEIGHTS: ClassVar = {"int8": ("int8", "int4", "int2"), "uint8": ("uint8",)}
    NEEDS_BIAS_TO_DELEGATE = False
    OFFSET_WEIGHTS = ("int8", "uint8")

    constant_weights: bool = True
    bias_read_as_int64: bool = False

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """See the class."""
        if not self._runs_ruy(call):
            arm = call.mode.arm64 and self.kernel_family(call) == "builtin"
            return "float64_away_saturated" if arm else "float64_away", None, 0
        rows, depth = call.input(1).shape
        dtype = call.input(0).dtype
        return matrix_rounding(call.mode, call.output.size // rows, rows, depth, dtype), None, 0

    def accumulator(self, call: Call) -> str:
        """As there; the matrix product of ``builtin`` sums in 32 bits where there is no bias."""
        wide = super().accumulator(call)
        return wide if has_bias(call) or not self._runs_ruy(call) else "int32"

    def _runs_ruy(self, call: Call) -> bool:
        """Not for an int64 bias, nor where int16 meets weights with a zero point."""
        if self.kernel_family(call) != "builtin":
            return False
        long_bias = has_bias(call) and call.input(2).dtype == "int64"
        return call.input(0).dtype != "int16" or not (long_bias or any(call.input(1).quant.zero_points))

    def result_zero_point(self, call: Call) -> int:
        """See the class."""
        dropped = self.kernel_family(call) == "builtin" and call.output.dtype != call.input(0).dtype
        return 0 if dropped else super().result_zero_point(call)

    def classic_scales(self, call: Call) -> tuple[float, ...]:
        """See the class."""
        one_scale = len(call.input(1).quant.scales) == 1
        narrow = self._runs_ruy(call) and one_scale
        return effective_scales(call, narrow_product=narrow)

    def wants_matching_bias(self, call: Call) -> bool:
        """In uint8; int8 weights of one scale become weights of N scales before they are compared."""
        return call.input(0).dtype == "uint8"

    def xnnpack_takes(self, call: Call) -> bool:
        """As there; weights of 2 and 4 bits in rows of whole bytes, those of 2 bits with a scale per row."""
        w = call.input(1)
        fits = w.dtype != "int2" or len(w.quant.scales) == w.shape[0]
        return super().xnnpack_takes(call) and fits and w.shape[1] % _PER_BYTE.get(w.dtype, 1) == 0

    def unsupported(self, call: Call) -> str | None:
        """As there, and where reference kernels read past an int32 bias."""
        if self.bias_read_as_int64 and self.kernel_family(call) == "reference":
            return (
                "the bias is int32, but the options do not say so in quantized_bias_type;"
                " the interpreter's reference kernel reads it as int64"
            )
        return super().unsupported(call)
