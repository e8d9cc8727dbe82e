"""What reductions over dimensions share: shapes, the order of floating sums, the delegate's 8-bit form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int, f32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.requantization import is_plain_8bit
from qimport.summation import fold_in_order, fused_multiply_add, sum_row

MAX_DELEGATED_RANK = 6

SumOrder = Literal["reference", "builtin", "packets"]
"""How the kernels without delegate order float32 sums.

``reference``: from 0, by index. ``builtin``: from the first element, by index. ``packets``: along the last
dimension after :func:`merge`, four lanes at a time. The delegate's: :func:`delegate_real_sum`.
"""


@dataclass(frozen=True)
class Merged:
    """A shape with neighbours that are both reduced or both kept made one, and what is reduced in it."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]


def merge(shape: tuple[int, ...], axes: tuple[int, ...], drop_ones: bool) -> Merged:
    """The shortest view in which the same elements are reduced; kept dimensions of one may stay."""
    sizes: list[int] = []
    reduced: list[bool] = []
    for axis, size in enumerate(shape):
        if size == 1 and (drop_ones or axis in axes):
            continue
        if reduced and reduced[-1] == (axis in axes):
            sizes[-1] *= size
        else:
            sizes.append(size)
            reduced.append(axis in axes)
    return Merged(tuple(sizes), tuple(i for i, flag in enumerate(reduced) if flag))


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` with extent 1 at ``axes``."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def sum_in_order(x: Array, axes: tuple[int, ...], order: SumOrder) -> Array:
    """float32 sums over ``axes``, which stay with extent 1; every addition is rounded."""
    if order == "packets":
        merged = merge(x.shape, axes, drop_ones=True)
        total = sum_row(x.reshape(merged.shape), order)
    else:
        total = _fold(x, axes, -0.0 if order == "builtin" else 0.0)
    return total.reshape(kept_shape(x.shape, axes))


def delegate_real_sum(x: Array, axes: tuple[int, ...], factor: float) -> Array:
    """XNNPACK's float32 sum times ``factor`` over ``axes``, which stay with extent 1.

    It merges neighbouring dimensions as :func:`merge` does, and sums over the last merged one first. Where
    the elements lie side by side that is ``sum_row(..., "lanes")``, and the sums are multiplied as they are
    added (rounded once) by index over the other dimensions. Where they do not, the sum goes by index, its
    product is rounded, and the products are added by index.
    """
    merged = merge(x.shape, axes, drop_ones=False)
    scale, small = np.float32(factor), x.reshape(merged.shape)
    *outer, inner = merged.axes or (None,)
    with np.errstate(all="ignore"):
        if inner is None:
            total = (np.float32(0) + small) * scale
        elif inner < len(merged.shape) - 1:
            total = _fold(small, (inner,), 0.0) * scale
            total = _fold(total, tuple(outer), 0.0) if outer else total
        else:
            total = sum_row(small, "lanes")
            total = fold_in_order(total, tuple(outer), 0.0, lambda t, s: fused_multiply_add(s, scale, t))
    return np.asarray(total, np.float32).reshape(kept_shape(x.shape, axes))


def _fold(x: Array, axes: tuple[int, ...], start: float) -> Array:
    with np.errstate(all="ignore"):
        return fold_in_order(x, axes, np.float32(start), np.add)


@dataclass(frozen=True)
class Reduction(QnnOperation):
    """A reduction over ``axes``; ``keep_dims`` says whether they stay with extent 1.

    C2 ``axes`` are sorted, distinct, in range. C3 the result shape follows; nothing is empty.
    """

    axes: tuple[int, ...]
    keep_dims: bool = False

    def verify_types(self, call: Call, dtypes: Sequence[str]) -> None:
        """Check C1: the result has the operand's element type, one of these."""
        x, out = call.input(0), call.output
        require(x.dtype == out.dtype and x.dtype in dtypes, "C1", f"no {self.NAME} of {x} as {out}")

    def verify_codes(self, label: str, call: Call) -> None:
        """Check that codes have one scale, and C4: those of 16 bits have zero point 0."""
        x, out = call.input(0), call.output
        require_per_tensor(label, x, out)
        zeros = (x.quant.zero_point, out.quant.zero_point)
        require(x.dtype != "int16" or zeros == (0, 0), "C4", "int16 has zero points 0")

    def verify_shape(self, call: Call) -> None:
        """Check C2 and C3."""
        x, out = call.input(0), call.output
        rank = len(x.shape)
        valid = self.axes == tuple(sorted(set(self.axes))) and all(0 <= axis < rank for axis in self.axes)
        require(valid, "C2", f"axes {self.axes} are not distinct, ascending dimensions of {x}")
        kept = self.kept_shape(call)
        wanted = kept if self.keep_dims else tuple(kept[i] for i in range(rank) if i not in self.axes)
        require(out.shape == wanted and x.size > 0, "C3", f"the result must have shape {wanted}")

    def kept_shape(self, call: Call) -> tuple[int, ...]:
        """The result's shape with reduced dimensions of extent 1."""
        return kept_shape(call.input(0).shape, self.axes)

    def copies(self, call: Call) -> bool:
        """Whether nothing is reduced: every axis, if there is one, has a single element."""
        return self.count(call) == 1

    def count(self, call: Call) -> int:
        """Elements that are reduced to one."""
        return math.prod(call.input(0).shape[axis] for axis in self.axes)

    def refused_bool(self, call: Call) -> str | None:
        """Why bool is refused by an operator that only the reference kernel computes on it; others copy."""
        known = self.kernel_family(call) == "reference" or self.copies(call)
        refused = call.input(0).dtype == "bool" and not known
        return f"there is no {self.TFLITE[0]} of bool with these kernels" if refused else None

    def xnnpack_takes(self, call: Call) -> bool:
        """At least one axis; float32, or 8 bits with one scale each and no quantized dimension."""
        x, out = call.input(0), call.output
        return bool(self.axes) and (x.dtype == "float32" or (is_plain_8bit(x) and is_plain_8bit(out)))

    def unsupported(self, call: Call) -> str | None:
        """Why there are no bytes to equal: the delegate takes the use, then fails to load the file."""
        rank = len(call.input(0).shape)
        if self.kernel_family(call) != "xnnpack" or rank <= MAX_DELEGATED_RANK:
            return None
        return f"the operand has rank {rank}; the XNNPACK delegate loads ranks up to {MAX_DELEGATED_RANK}"


@dataclass(frozen=True)
class DelegateSum:
    """code = clamp(round_even(float32(float32(sum) * factor) + offset)), each step in float32.

    ``fused``: the product and the sum in one step, as on ARM.
    """

    factor: float
    offset: float
    fused: bool

    def codes(self, total: Int, output: TensorType) -> Array:
        """Codes for sums of codes."""
        add = fused_multiply_add if self.fused else _multiply_add
        scaled = add(total.astype(np.float32), np.float32(self.factor), np.float32(self.offset))
        return np.asarray(np.clip(np.rint(scaled), *INTEGER_RANGE[output.dtype]), output.numpy)


def delegate_sum(call: Call, count: int, divisor: int) -> DelegateSum:
    """XNNPACK's parameters for a sum of ``count`` codes divided by ``divisor``."""
    x, out = call.input(0).quant, call.output.quant
    factor = f32(x.scale / out.scale)
    if divisor != 1:
        factor = f32(factor * f32(1 / divisor))
    add = fused_multiply_add if call.mode.arm64 else _multiply_add
    offset = add(np.float32(-count * x.zero_point), np.float32(factor), np.float32(out.zero_point))
    return DelegateSum(factor, float(offset), call.mode.arm64)


def _multiply_add(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> npt.NDArray[np.float32]:
    return np.asarray(np.multiply(a, b) + c, np.float32)
