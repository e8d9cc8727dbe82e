"""``qnn.detection_postprocess``: the custom operator TFLite_Detection_PostProcess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport import real
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import TensorType
from qimport.overlap import choose_boxes
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor

BLOCK = 8
"""Elements the dequantization of scores takes at a time."""


@operation
@dataclass(frozen=True)
class DetectionPostprocess(QnnOperation):
    """Decode boxes and choose the best ones, the same in all modes.

    Operands: encodings [1, N, K >= 4], scores [1, N, S], anchors [N, 4], which are float32 or uint8. uint8
    boxes and anchors are float32((q - z) * s), scores float32(float32(q * s) + float32(-z * s)) in whole
    blocks of 8, and as boxes behind them. Results: boxes [1, M, 4], classes [1, M], scores [1, M], count
    [1], float32, with M = ``detections`` * ``per_box``. In float64, rounded to float32 where ``f`` stands:

        y = f(e_0 / scale_0 * a_2 + a_0)    h = f(0.5 * exp(e_2 / scale_2) * a_2)    top, bottom = f(y -+ h)
        x = f(e_1 / scale_1 * a_3 + a_1)    w = f(0.5 * exp(e_3 / scale_3) * a_3)    left, right = f(x -+ w)

    :func:`qimport.overlap.choose_boxes` chooses. The interpreter fails where a box has its bottom above its
    top, and leaves results behind the last detection as they were; here they are 0.

    C1 operands as above, encodings and anchors of one element type. C2 there are 0 < ``classes`` = S or S - 1
    scored classes. C3 counts are positive, 0 < overlap_threshold <= 1. C4 results as above.
    """

    NAME = "qnn.detection_postprocess"
    TFLITE = ("TFLite_Detection_PostProcess",)

    classes: int
    detections: int
    per_box: int
    per_class: int
    regular: bool
    score_threshold: float
    overlap_threshold: float
    scales: tuple[float, float, float, float]

    @property
    def slots(self) -> int:
        """M of the docstring."""
        return self.detections * self.per_box

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        encodings, scores, anchors = (call.input(i) for i in range(3))
        for type_ in (encodings, scores, anchors):
            require(type_.dtype in ("float32", "uint8"), "C1", f"{type_} is neither float32 nor uint8")
            if type_.dtype == "uint8":
                require_per_tensor("C1", type_)
        require(encodings.dtype == anchors.dtype, "C1", "encodings and anchors differ in element type")
        count = anchors.shape[0] if len(anchors.shape) == 2 else 0
        shaped = len(encodings.shape) == len(scores.shape) == 3 and anchors.shape == (count, 4) and count > 0
        require(shaped, "C1", f"{encodings}, {scores} and {anchors} are no boxes")
        fits = encodings.shape[:2] == scores.shape[:2] == (1, count) and encodings.shape[2] >= 4
        require(fits, "C1", f"{encodings}, {scores} and {anchors} are not as many boxes")
        require(
            0 <= scores.shape[2] - self.classes <= 1 and self.classes > 0, "C2", f"{self.classes} classes"
        )
        require(min(self.detections, self.per_box, self.per_class) > 0, "C3", "counts must be positive")
        require(0 < self.overlap_threshold <= 1, "C3", f"overlap threshold {self.overlap_threshold}")
        shapes = ((1, self.slots, 4), (1, self.slots), (1, self.slots), (1,))
        wanted = tuple(TensorType("float32", shape) for shape in shapes)
        require(call.outputs == wanted, "C4", f"the results must be {', '.join(map(str, wanted))}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formulas."""
        encodings, anchors = (_plain(call, position) for position in (0, 2))
        boxes = self.decode(encodings.reshape(anchors.shape[0], -1), anchors)
        found = choose_boxes(boxes, np.asarray(_in_blocks(call, 1)[0], np.float32), self)
        return tuple(part.reshape(out.shape) for part, out in zip(found, call.outputs, strict=True))

    def decode(self, encodings: Array, anchors: Array) -> npt.NDArray[np.float32]:
        """Boxes [N, 4]."""
        e, a = encodings.astype(np.float64), anchors.astype(np.float64)
        sides = []
        with np.errstate(all="ignore"):
            for k in (0, 1):
                centre = (e[:, k] / self.scales[k] * a[:, k + 2] + a[:, k]).astype(np.float32)
                size = 0.5 * real.apply64("exp", e[:, k + 2] / self.scales[k + 2]) * a[:, k + 2]
                sides.append((centre - size.astype(np.float32), centre + size.astype(np.float32)))
        (top, bottom), (left, right) = sides
        return np.stack([top, left, bottom, right], axis=1)


def _plain(call: Call, position: int) -> Any:
    x, type_ = call.array(position), call.input(position)
    if type_.dtype == "float32":
        return x
    return (x.astype(np.int64) - type_.quant.zero_point).astype(np.float32) * np.float32(type_.quant.scale)


def _in_blocks(call: Call, position: int) -> Any:
    x, type_ = call.array(position), call.input(position)
    if type_.dtype == "float32":
        return x
    scale = np.float32(type_.quant.scale)
    body = x.astype(np.float32) * scale + np.float32(-type_.quant.zero_point) * scale
    result, whole = _plain(call, position).reshape(-1).copy(), x.size - x.size % BLOCK
    result[:whole] = body.reshape(-1)[:whole]
    return result.reshape(x.shape)
