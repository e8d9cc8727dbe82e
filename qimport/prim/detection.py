"""The choice of boxes after an object detector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.overlap import choose_boxes


@operation
@dataclass(frozen=True)
class Detect(Operation):
    """Non-maximum suppression: the boxes with the best scores that overlap no better one too much.

    Operands: boxes float32 [N, 4] (top, left, bottom, right), scores float32 [N, S] of which the last
    ``classes`` columns count. Result: one float32 vector; with M = ``detections`` * ``per_box``: M boxes, M
    classes, M scores, the number of detections, then memory for the computation
    (:meth:`scratch` elements, zero at the end). See :func:`qimport.overlap.choose_boxes`.

    C1 shapes and element types as above, N > 0, 0 < classes <= S. C2 the counts are positive.
    """

    NAME = "prim.detect"

    classes: int
    detections: int
    per_box: int
    per_class: int
    regular: bool
    score_threshold: float
    overlap_threshold: float

    @property
    def slots(self) -> int:
        """M of the docstring."""
        return self.detections * self.per_box

    def scratch(self, boxes: int) -> int:
        """Elements behind the results: a key and a state for every candidate, a number for every class."""
        return 2 * boxes * (self.classes if self.regular else 1) + self.classes

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        boxes, scores, out = call.input(0), call.input(1), call.output
        require({boxes.dtype, scores.dtype, out.dtype} == {"float32"}, "C1", "float32 is needed throughout")
        fits = len(boxes.shape) == len(scores.shape) == 2 and boxes.shape == (scores.shape[0], 4)
        require(fits and boxes.shape[0] > 0, "C1", f"{boxes} and {scores} are no boxes and scores")
        require(0 < self.classes <= scores.shape[1], "C1", f"{scores} do not score {self.classes} classes")
        require(min(self.detections, self.per_box, self.per_class) > 0, "C2", "counts must be positive")
        wanted = (6 * self.slots + 1 + self.scratch(boxes.shape[0]),)
        require(out.shape == wanted, "C1", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """:func:`qimport.overlap.choose_boxes`; the memory is left out of the definition and 0 here."""
        boxes, scores = (np.asarray(call.array(i), np.float32) for i in range(2))
        found = choose_boxes(boxes, scores, self)
        scratch = np.zeros(self.scratch(len(call.array(0))), np.float32)
        return (np.concatenate([part.reshape(-1) for part in (*found, scratch)]).astype(np.float32),)
