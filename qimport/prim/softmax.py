"""``prim.softmax``: normalize rows of exponentials looked up in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport import fixedpoint as fp
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE


@operation
@dataclass(frozen=True)
class Softmax(Operation):
    """Softmax over the last axis of an 8-bit tensor, to 8 or 16 bits; e[i] = table[max(row) - x[i]].

    ``fixed`` (reference kernel, table int32 in Q0.31, not negative, 0 for differences below diff_min):
    sum = sum of rdbpot(e, 12) modulo 2^32; h = its leading zeros, 32 for none set;
    r = 1/(1+x) of the sum shifted left by h;
    q = clamp(rdbpot(high_mul(r, e), 12 - h + 31 - bits) + low). ``bits`` and ``low`` are the result's width
    and its lowest code.
    ``float`` (optimized kernel, table float32): sum in float32 in index order;
    inverse = 1 / (sum * output_scale); q = round_away(e * inverse) + zero_point for signed results,
    trunc(e * inverse + 0.5) for uint8; clamped.

    C1 operands are (8-bit x of rows that are not empty, constant table [256]); result of x's shape and
    element type, or int16. C2 table is int32 for ``fixed``, float32 for ``float``.
    """

    NAME = "prim.softmax"

    kind: Literal["fixed", "float"]
    output_scale: float = 1.0 / 256.0
    zero_point: int = -128

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, table, out = call.input(0), call.input(1), call.output
        require(out.shape == x.shape and out.dtype in (x.dtype, "int16"), "C1", "wrong result type")
        require(x.dtype in ("int8", "uint8") and table.shape == (256,), "C1", "wrong types")
        require(len(x.shape) > 0 and x.shape[-1] > 0, "C1", f"{x} has no rows")
        require(self.kind in ("fixed", "float"), "C2", f"there is no softmax {self.kind}")
        require(table.dtype == ("int32" if self.kind == "fixed" else "float32"), "C2", "wrong table type")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy, in the stated order of operations."""
        x = call.array(0).astype(np.int64)
        low, high = INTEGER_RANGE[call.output.dtype]
        entries = call.array(1)[x.max(-1, keepdims=True) - x]
        bits = 8 * call.output.itemsize
        codes = self._fixed(entries, low, bits) if self.kind == "fixed" else self._float(entries, low)
        return (np.clip(codes, low, high).astype(call.output.numpy),)

    def _fixed(self, entries: Array, low: int, bits: int) -> Array:
        e = entries.astype(np.int64)
        total = fp.rounding_divide_by_pot(e, 12).sum(-1, keepdims=True) % 2**32
        headroom = fp.count_leading_zeros32(total)
        inverse = fp.one_over_one_plus_x(fp.wrap32((total << headroom) - 2**31))
        product = fp.saturating_rounding_doubling_high_mul(inverse, e)
        return np.asarray(fp.rounding_divide_by_pot(product, 12 - headroom + 31 - bits) + low)

    def _float(self, entries: Array, low: int) -> Array:
        e = entries.astype(np.float32)
        total = np.cumsum(e, axis=-1, dtype=np.float32)[..., -1:]
        inverse = np.float32(1) / (total * np.float32(self.output_scale))
        scaled = e * inverse
        if low == 0:
            return np.asarray(np.trunc(scaled + np.float32(0.5)), np.int64)
        return fp.round_away(scaled).astype(np.int64) + self.zero_point
