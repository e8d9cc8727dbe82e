"""What all kernels of ``prim.mac`` share: geometry and packed weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport import prim
from qimport.codegen.function import ELEMENTS, PTR, KernelFunction
from qimport.codegen.tables import ALIGNMENT
from qimport.errors import CompilerBug
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Array, Value
from qimport.lower.kernel import Kernel


@dataclass(frozen=True)
class Geometry:
    """A multiply-accumulate as rows of output pixels that each read ``runs`` of contiguous input elements.

    ``rows`` x ``width`` output pixels of ``outputs`` channels; a pixel reads ``run_rows`` x
    ``run_columns`` runs of ``run_length``, spaced ``run_row_step`` and ``run_column_step`` elements.
    Neighbouring pixels are ``pixel_step`` input elements apart, rows of pixels ``row_step``, images
    ``image_step``. A pointwise layer is one long row.
    """

    images: int
    rows: int
    width: int
    image_step: int
    row_step: int
    pixel_step: int
    run_rows: int
    run_columns: int
    run_length: int
    run_row_step: int
    run_column_step: int
    outputs: int

    @property
    def runs(self) -> int:
        """Runs per pixel."""
        return self.run_rows * self.run_columns


def root_of(kernel: Kernel) -> tuple[prim.Mac, Value, Value, Value]:
    """The operation and its three operands."""
    op, (x, w, bias) = kernel.root.op, kernel.root.inputs
    if not isinstance(op, prim.Mac) or x is None or w is None or bias is None:
        raise CompilerBug(f"{kernel.root.op.NAME} is no complete prim.mac")
    if op.padding != ((0, 0), (0, 0)):
        raise CompilerBug("prim.mac with padding reached code generation; padding must be explicit")
    return op, x, w, bias


def geometry(kernel: Kernel) -> Geometry:
    """The geometry of a kernel; grouped weights count as dense ones with zeros between."""
    op, x, w, _ = root_of(kernel)
    batch, height, width, channels = x.type.shape
    outputs, kh, kw, _ = w.type.shape
    _, oh, ow, _ = kernel.root.outputs[0].type.shape
    pixel, line = op.stride[1] * channels, width * channels
    merged = op.dilation[1] == 1 or kw == 1
    columns, run = (1, kw * channels) if merged else (kw, channels)
    steps = (op.dilation[0] * line, op.dilation[1] * channels)
    if (kh, kw) == (1, 1) and op.stride == (1, 1):
        return Geometry(1, 1, batch * oh * ow, 0, 0, pixel, 1, 1, run, 0, 0, outputs)
    return Geometry(
        batch, oh, ow, height * line, op.stride[0] * line, pixel, kh, columns, run, *steps, outputs
    )


def constant_weights(kernel: Kernel) -> bool:
    """Whether weights and bias are known, so that they can be packed."""
    _, _, w, bias = root_of(kernel)
    return w.is_constant and bias.is_constant


def element_bytes(kernel: Kernel) -> int:
    """Bytes of an input element."""
    return root_of(kernel)[1].type.itemsize


def sum_type(kernel: Kernel) -> str:
    """Element type of the sums: int32 or int64."""
    return kernel.root.outputs[0].type.dtype


def multiplies_bytes(kernel: Kernel) -> bool:
    """Whether input and weights are 8-bit."""
    _, x, w, _ = root_of(kernel)
    return x.type.itemsize == w.type.itemsize == 1


def multiplies_words_by_bytes(kernel: Kernel) -> bool:
    """Whether the input has 16 bits and the weights have 8."""
    _, x, w, _ = root_of(kernel)
    return x.type.itemsize == 2 and w.type.itemsize == 1


def is_depthwise(kernel: Kernel) -> bool:
    """Whether every output channel reads one input channel of several."""
    op, _, w, _ = root_of(kernel)
    return op.groups > 1 and w.type.shape[3] == 1


@dataclass(frozen=True)
class Matrix:
    """Weights int64[outputs, runs, run_length] in the domain of an instruction, and what they owe.

    ``bias`` [outputs] includes every correction but ``- zero * sum of activations``.
    """

    weights: Array
    bias: Array
    zero: int


def flip(kernel: Kernel, unsigned: bool) -> int:
    """The byte whose exclusive or makes stored activations 0..255 (``unsigned``) or -128..127.

    0x80 where they are bytes of the other signedness, otherwise 0.
    """
    x = root_of(kernel)[1].type
    return 0x80 if x.itemsize == 1 and (x.dtype == "int8") == unsigned else 0


def matrix(kernel: Kernel, unsigned: bool, subtract_zero: bool) -> Matrix:
    """Weights for activations taken as 0..255 (``unsigned``) or -128..127.

    acc = sum (x - zx)(w - zw) = sum x w - zw sum x - zx sum w + K zx zw. With ``subtract_zero`` the stored
    weights are w - zw and need int16; otherwise they are brought into int8 and may keep a zero point.
    """
    op, _, w, bias = root_of(kernel)
    assert w.data is not None and bias.data is not None
    geo = geometry(kernel)
    weights = _ungrouped(w.data.astype(np.int64), op.groups, op.weight_zero)
    zero = op.weight_zero
    if subtract_zero:
        weights, zero = weights - zero, 0
    elif w.type.dtype == "uint8":
        weights, zero = weights - 128, zero - 128
    input_zero = op.input_zero + flip(kernel, unsigned) * (1 if unsigned else -1)
    weights = weights.reshape(geo.outputs, geo.runs, geo.run_length)
    count = geo.runs * geo.run_length
    owed = bias.data.astype(np.int64) - input_zero * weights.sum((1, 2)) + count * input_zero * zero
    sums = owed if bias.type.dtype == "int64" else wrap32(owed).astype(np.int32)
    return Matrix(weights, sums, zero)


def needs_activation_sums(kernel: Kernel) -> bool:
    """Whether int8 weights keep a zero point: then every pixel's activations have to be summed."""
    op, _, w, _ = root_of(kernel)
    return op.weight_zero != (128 if w.type.dtype == "uint8" else 0)


def _ungrouped(w: Array, groups: int, zero: int) -> Array:
    """Grouped OHWI weights as dense ones; taps of other groups hold the weight zero point."""
    if groups == 1:
        return w
    outputs, kh, kw, depth = w.shape
    dense = np.full((outputs, kh, kw, depth * groups), zero, w.dtype)
    per_group = outputs // groups
    for group in range(groups):
        mine = slice(group * per_group, (group + 1) * per_group)
        dense[mine, :, :, group * depth : (group + 1) * depth] = w[mine]
    return dense


def balanced(extent: int, most: int) -> int:
    """The smallest block that covers ``extent`` in as few blocks as blocks of ``most`` would."""
    return math.ceil(extent / math.ceil(extent / most))


def align(size: int) -> int:
    """``size`` rounded up to the alignment of table sections."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def tile_memory(fn: KernelFunction, elements: int, dtype: str = "int32") -> Any:
    """Stack memory for the sums of one tile."""
    memory = fn.b.alloca(ELEMENTS[dtype], elements)
    memory.align = ALIGNMENT
    memory.type = PTR  # llvmlite still types the result of an allocation
    return memory
