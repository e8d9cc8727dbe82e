"""TFLite_Detection_PostProcess, a custom operator whose options are a flexbuffer."""

from __future__ import annotations

from typing import Any

from qimport.fixedpoint import f32
from qimport.frontend.custom import custom_importer
from qimport.frontend.flexbuffer import read_map
from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.qnn.detection import DetectionPostprocess

DETECTIONS_PER_CLASS = 100
"""Where the options do not say."""

MAX_DETECTIONS = 1 << 16


@custom_importer("TFLite_Detection_PostProcess")
def detection_postprocess(context: OperatorContext) -> None:
    """Decode boxes and choose the best."""
    context.operands(3, results=4)
    encodings, scores, anchors = (context.input(index) for index in range(3))
    if encodings.type.shape[:2] != (1, *anchors.type.shape[:1]):
        sentence = f"boxes of shape {encodings.type.shape} do not fit anchors of shape {anchors.type.shape}"
        context.misfit(f"{sentence}; expected a batch of 1 with as many boxes", encodings)
    for value in (encodings, scores, anchors):
        checks.one_of(context, value, ("float32", "uint8"))
        if value.type.dtype == "uint8":
            checks.per_tensor(context, value)
    for result in context.results:
        checks.one_of(context, result.value, ("float32",))
    options = _Options(context)
    op = DetectionPostprocess(
        classes=options.count("num_classes"),
        detections=options.count("max_detections"),
        per_box=options.count("max_classes_per_detection"),
        per_class=options.count("detections_per_class", DETECTIONS_PER_CLASS),
        regular=bool(options.number("use_regular_nms", 0)),
        score_threshold=f32(options.number("nms_score_threshold", 0.0)),
        overlap_threshold=f32(options.number("nms_iou_threshold", 0.0)),
        scales=tuple(f32(options.number(f"{side}_scale", 0.0)) for side in "yxhw"),  # type: ignore[arg-type]
    )
    slots = op.slots
    context.emit_results(op, (encodings, scores, anchors), ((1, slots, 4), (1, slots), (1, slots), (1,)))


class _Options:
    """The options of the operator, read as its kernel reads them."""

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.found = read_map(bytes(context.operator.custom_options or b""), context.label)

    def number(self, name: str, absent: float) -> Any:
        """A number, or ``absent``."""
        value = self.found.get(name)
        return absent if value is None else value

    def count(self, name: str, absent: int = 0) -> int:
        """A positive number of not absurd size."""
        value = int(self.number(name, absent))
        if not 0 < value <= MAX_DETECTIONS:
            self.context.unsupported(f"the option {name} is {value}; expected 1 to {MAX_DETECTIONS}")
        return value
