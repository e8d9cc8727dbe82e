"""``qnn.blockwise_dense``: FULLY_CONNECTED of float activations and int4 weights with a scale per block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import Quantization, TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.dynamic_quantization import DynamicKind, quantize_rows
from qimport.qnn.float_weighted import ACTIVATION_BOUNDS, bias_of, bounds
from qimport.qnn.geometry import has_bias, verify_rows
from qimport.qnn.hybrid_dense import HybridDense, has_nibble_kernel
from qimport.summation import Float32, fused_multiply_add

SMALLEST_BLOCK = 32
"""The delegate takes multiples of this block."""

PIECE = 16
"""Weights that XNNPACK adds up as integers when it packs them."""

UNSIGNED = 128
"""What XNNPACK adds to codes, so that they are not negative."""

SCALES = 3
"""The operand that holds the scales of blocks."""


@operation
@dataclass(frozen=True)
class BlockwiseDense(QnnOperation):
    """Matrix product of floats with an int4 weight matrix whose rows have one scale per ``block`` weights.

    Operands: x float32 (flattened to [rows, K]), w int4 [N, K], bias float32[N] or None (counts as zeros),
    s float16 [N, K / block], a constant. The result has rows * N elements, N along its last dimension.

    With rows quantized on the fly, x = s_x * (code - zero), and the sums over block b
    A[b] = sum code * w and W[b] = sum w:

    reference   the kernel knows no blocks and takes the only scale to be 0: the result of
                ``qnn.hybrid_dense`` with that scale, which is activation(bias)
    builtin     even K of at least 32, N of at least 4: asymmetric rows,
                (sum A[b] * s[b] + zero * -(sum W[b] * s[b])) * s_x + bias by ascending b, every step rounded
                to float32, *without* the activation. Other shapes as in reference. Measured.
    xnnpack     ``qd8_f32_qb4w``: rows as XNNPACK's qd8 quantizes them, s rounded to bfloat16, codes and zero
                points + 128: t = zero * -(sum W * s), where W sums pieces of 16 weights, then
                t = fma(A[b], s[b], t) by ascending b; activation(t * s_x + bias). Blocks of a multiple of 32
                only.

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int4 of rank 2.
    C2 K divides the size of x; the result has rows * N elements and N along its last dimension. C3 s is
    float16[N, K / block], whole blocks. C4 bias is float32[N]. C5 the activation is one of the schema's.

    ``constant_bias`` says that the bias is stored in the file, which the delegate asks for.
    """

    NAME = "qnn.blockwise_dense"
    ARM64_FLOATS = ()
    TFLITE = ("FULLY_CONNECTED",)

    block: int
    activation: str = "NONE"
    asymmetric: bool = False
    constant_bias: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, s, out = call.input(0), call.input(1), call.input(SCALES), call.output
        require(x.dtype == out.dtype == "float32", "C1", "input and result must be float32")
        require(w.dtype == "int4", "C1", "the weights must be int4")
        outputs, depth = verify_rows(call), w.shape[1]
        require(
            self.block > 0 and depth % self.block == 0, "C3", f"blocks of {self.block} do not fit {depth}"
        )
        wanted = TensorType("float16", (outputs, depth // self.block))
        require(s == wanted, "C3", f"the scales must be {wanted}")
        if has_bias(call):
            bias = call.input(2)
            fits = bias.dtype == "float32" and bias.shape == (outputs,)
            require(fits, "C4", f"the bias must be float32[{outputs}]")
        require(self.activation in ACTIVATION_BOUNDS, "C5", f"unknown activation {self.activation}")

    def xnnpack_takes(self, call: Call) -> bool:
        """Constants only, in blocks that its packing knows."""
        return self.constant_bias and self.block % SMALLEST_BLOCK == 0

    def knows_blocks(self, call: Call) -> bool:
        """Whether the kernel that runs has heard of blocks."""
        family = self.kernel_family(call)
        return family == "xnnpack" or (family == "builtin" and has_nibble_kernel(call.input(1)))

    def without_blocks(self, call: Call) -> tuple[HybridDense, Call]:
        """What the other kernels compute: an operation on weights of scale 0, and its use."""
        w = call.input(1)
        idle = TensorType(w.dtype, w.shape, Quantization((0.0,), (0,)))
        types = (call.inputs[0], idle, call.inputs[2])
        op = HybridDense(self.activation, self.asymmetric, constant_weights=False)
        return op, Call(types, call.outputs, call.arrays[:SCALES], call.numerics)

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """How kernels that know blocks quantize activations."""
        return "delegate" if self.kernel_family(call) == "xnnpack" else "asymmetric"

    def offset(self, call: Call) -> int:
        """What is added to codes and zero points."""
        return UNSIGNED if self.kernel_family(call) == "xnnpack" else 0

    def limits(self, call: Call) -> tuple[float, float]:
        """The range of results of kernels that know blocks."""
        if self.kernel_family(call) == "xnnpack":
            return bounds(self.activation, "xnnpack")
        return -np.inf, np.inf

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        if not self.knows_blocks(call):
            op, plain = self.without_blocks(call)
            return op.evaluate(plain)
        fused = self.kernel_family(call) == "xnnpack"
        rows = quantize_rows(call.array(0).reshape(-1, call.input(1).shape[1]), self.dynamic_kind(call))
        zero = rows.zero_point + self.offset(call)
        factors = self.factors(call.array(1), call.array(SCALES), fused)
        sums = self._block_sums(rows.centred + zero, call.array(1).astype(np.int64))
        counts = np.broadcast_to(zero, sums.shape[1:])[None]
        terms = np.concatenate((counts, sums) if fused else (sums, counts)).astype(np.float32)
        total = np.zeros(terms.shape[1:], np.float32)
        with np.errstate(all="ignore"):
            for term, factor in zip(terms, factors, strict=True):
                total = fused_multiply_add(term, factor, total) if fused else total + term * factor
            result = total * rows.scale + bias_of(call)
        low, high = self.limits(call)
        return (np.clip(result.reshape(call.output.shape), np.float32(low), np.float32(high)),)

    def _block_sums(self, codes: Int, w: Int) -> Int:
        """A as [K / block, rows, N]."""
        blocks = [slice(begin, begin + self.block) for begin in range(0, w.shape[1], self.block)]
        return np.array([codes[:, block] @ w[:, block].T for block in blocks])

    def factors(self, w: Array, scales: Array, delegated: bool) -> Float32:
        """What A and the zero point are multiplied with, by the order of the sum: [K / block + 1, N]."""
        per_block = np.ascontiguousarray(scales.T.astype(np.float32))
        if delegated:
            per_block = round_to_bfloat16(per_block)
        piece = PIECE if delegated else self.block
        owed = np.zeros(len(w), np.float32)
        for begin in range(0, w.shape[1], piece):
            count = w[:, begin : begin + piece].sum(1, dtype=np.int64).astype(np.float32)
            owed = owed - count * per_block[begin // self.block]
        return np.concatenate((owed[None], per_block) if delegated else (per_block, owed[None]))


def round_to_bfloat16(x: Float32) -> Float32:
    """The nearest float32 numbers of which only the upper 16 bits are set, ties to even; x is finite."""
    bits = x.view(np.uint32)
    rounded: Float32 = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded
