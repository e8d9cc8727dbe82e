"""``qnn.float_dense``: FULLY_CONNECTED of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import DELEGATE, OPTIMIZED, REFERENCE, FloatWeighted, Sums, product
from qimport.qnn.geometry import DenseGeometry
from qimport.summation import Float32


@operation
@dataclass(frozen=True)
class FloatDense(DenseGeometry, FloatWeighted):
    """Matrix product with a weight matrix: DenseGeometry of float32.

        y[r,n] = activation(bias[n] + sum x[r,k] * w[n,k])

    reference   one product after the other, each rounded, each sum rounded; the bias is added last
                (``reference_ops::FullyConnected``). Sums out of range become the largest number.
    builtin     as Eigen's matrix product sums (:mod:`qimport.qnn.optimized_product`; measured without a
                difference)
    xnnpack     fused multiply-adds in the order of ``reference``, starting from the bias (f32-gemm for
                AVX-512). The delegate flushes subnormal numbers to zero, which is not reproduced.

    C1 float32. C2 see DenseGeometry. C3 bias is [N]. C4 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.float_dense"
    ARM64_FLOATS = ()
    TFLITE = ("FULLY_CONNECTED",)

    constant_weights: bool = True

    def sums(self, call: Call) -> Sums:
        """See the class."""
        return {"reference": REFERENCE, "builtin": OPTIMIZED, "xnnpack": DELEGATE}[self.kernel_family(call)]

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One matrix product."""
        w = call.array(1)
        rows = call.array(0).reshape(-1, w.shape[1])
        return product(rows, w.T, bias, sums).reshape(call.output.shape)
