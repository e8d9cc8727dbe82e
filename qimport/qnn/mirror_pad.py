"""``qnn.mirror_pad``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_same_dtype


@operation
@dataclass(frozen=True)
class MirrorPad(QnnOperation):
    """Surround with the operand's own elements, mirrored; any type, all modes equal.

    With ``edge`` the border element comes again (SYMMETRIC), without the mirror lies on it (REFLECT).

    C1 one element type. C2 one count >= 0 per dimension and side, at most the size of the dimension, less one
    without ``edge``. C3 the result shape is the sum of these and the operand's.
    """

    NAME = "qnn.mirror_pad"
    TFLITE: ClassVar[tuple[str, ...]] = ("MIRROR_PAD",)

    before: tuple[int, ...]
    after: tuple[int, ...]
    edge: bool

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        counts = len(self.before) == len(self.after) == len(x.shape)
        require(counts, "C2", f"pads of {len(self.before)} and {len(self.after)} dimensions for {x}")
        pads = list(zip(x.shape, self.before, self.after, strict=True))
        for size, before, after in pads:
            inside = min(before, after) >= 0 and max(before, after) <= size - (not self.edge)
            require(inside, "C2", f"{before} and {after} elements around {size}")
        wanted = tuple(map(sum, pads))
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    def places(self, axis: int, size: int) -> npt.NDArray[np.int32]:
        """Where the elements along a dimension of the result come from."""
        steps = np.arange(-self.before[axis], size + self.after[axis], dtype=np.int32)
        if self.edge:
            return np.minimum(np.where(steps < 0, -1 - steps, steps), 2 * size - 1 - steps)
        return np.minimum(np.abs(steps), 2 * size - 2 - steps)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take, dimension by dimension."""
        x = call.array(0)
        for axis, size in enumerate(call.input(0).shape):
            x = np.take(x, self.places(axis, size), axis)
        return (x,)
