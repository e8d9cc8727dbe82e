"""``qnn.float_dense``: FULLY_CONNECTED of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import DELEGATE, OPTIMIZED, REFERENCE, FloatWeighted, Sums, product
from qimport.summation import Float32


@operation
@dataclass(frozen=True)
class FloatDense(FloatWeighted):
    """Matrix product of floats with a weight matrix.

    Operands: x (flattened to [rows, K]), w [N, K], bias [N] or None (counts as zeros). The result has
    rows * N elements, N along its last dimension; which rank, its type says.

        y[r,n] = activation(bias[n] + sum x[r,k] * w[n,k])

    reference   one product after the other, each rounded, each sum rounded; the bias is added last
                (``reference_ops::FullyConnected``). Sums out of range become the largest number.
    builtin     as Eigen's matrix product sums (:mod:`qimport.qnn.optimized_product`; measured without a
                difference)
    xnnpack     fused multiply-adds in the order of ``reference``, starting from the bias (f32-gemm for
                AVX-512). The delegate flushes subnormal numbers to zero, which is not reproduced.

    C1 float32; w has rank 2. C2 K divides the size of x; the result has rows * N elements and N along its
    last dimension. C3 bias is [N]. C4 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.float_dense"
    TFLITE = ("FULLY_CONNECTED",)

    activation: str = "NONE"
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(w.shape) == 2, "C1", "the weights must have rank 2")
        outputs, depth = w.shape
        require(depth > 0 and x.size % depth == 0, "C2", f"{x} does not consist of rows of {depth}")
        fits = bool(out.shape) and out.shape[-1] == outputs and out.size == x.size // depth * outputs
        require(fits, "C2", f"the result must hold {x.size // depth} rows of {outputs}")
        self.verify_floats(call, outputs)

    def sums(self, call: Call) -> Sums:
        """See the class."""
        return {"reference": REFERENCE, "builtin": OPTIMIZED, "xnnpack": DELEGATE}[self.kernel_family(call)]

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One matrix product."""
        w = call.array(1)
        rows = call.array(0).reshape(-1, w.shape[1])
        return product(rows, w.T, bias, sums).reshape(call.output.shape)
