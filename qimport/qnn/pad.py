"""``qnn.pad``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT, require_same_dtype


@operation
@dataclass(frozen=True)
class Pad(QnnOperation):
    """Surround with ``before`` and ``after`` elements per dimension; any element type.

    ``value`` is the code to fill with; None fills with the second operand if there is one (one element), else
    with the result's zero point, or 0 without quantization. Codes are copied whatever their quantization.

    All modes equal, but for one thing: the optimized kernels clear memory to fill with any zero, so that -0.0
    becomes 0.0 except in ``reference``, and except for float16 images padded in height and width alone.

    C1 one element type; a fill operand has one element. C2 one count >= 0 per dimension and side, and the
    result shape is their sum with the operand's.
    """

    NAME = "qnn.pad"
    TFLITE: ClassVar[tuple[str, ...]] = ("PAD", "PADV2")

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int | float | None = None

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        if len(call.inputs) > 1:
            single = self.value is None and call.input(1).size == 1
            require(single, "C1", f"{call.input(1)} is no fill value beside {self.value}")
        ranks = len(self.before) == len(self.after) == len(x.shape)
        require(ranks, "C2", f"pads of {len(self.before)} and {len(self.after)} dimensions for {x}")
        require(min((0, *self.before, *self.after)) == 0, "C2", "pads must not be negative")
        sizes = zip(x.shape, self.before, self.after, strict=True)
        wanted = tuple(size + before + after for size, before, after in sizes)
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def xnnpack_takes(self, call: Call) -> bool:
        """PAD (no value of its own) on 8-bit or float tensors."""
        return self.value is None and len(call.inputs) == 1 and call.output.dtype in (*EIGHT_BIT, "float32")

    def clears(self, call: Call) -> bool:
        """Whether a zero is filled in as 0.0, whatever its sign."""
        image = len(self.before) == 4 and not any((*self.before[::3], *self.after[::3]))
        floating = call.output.dtype.startswith("float")
        return floating and call.mode.family != "reference" and not (image and call.output.dtype == "float16")

    def fill(self, call: Call) -> int | float:
        """The element that surrounds the operand, if it is no operand itself."""
        out = call.output
        if self.value is not None:
            return 0 if self.value == 0 and self.clears(call) else self.value
        return 0 if out.quantization is None else out.quant.zero_point

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy pad."""
        widths = tuple(zip(self.before, self.after, strict=True))
        fill = self.fill(call) if len(call.arrays) == 1 else call.array(1).reshape(-1)[0]
        fill = 0 if fill == 0 and self.clears(call) else fill
        return (np.pad(call.array(0), widths, constant_values=fill),)
