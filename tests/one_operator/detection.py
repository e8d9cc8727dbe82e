"""Generator of TFLite_Detection_PostProcess."""

from __future__ import annotations

from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.reductions import random_values
from tests.single_op import quantized


def options_of(**options: Any) -> bytes:
    """A flexbuffer map."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            add = {bool: builder.Bool, int: builder.Int, float: builder.Float}[type(value)]
            add(name, value)
    return bytes(builder.Finish())


def _operands(draw: Draw, dtype: str, count: int, scored: int) -> list[tuple[TensorType, Array]]:
    """Encodings, scores and anchors; many equal scores now and then."""
    shapes = ((1, count, draw.pick(4, 4, 6)), (1, count, scored), (count, 4))
    if dtype == "uint8":
        points = (draw.zero_point("uint8"), draw.pick(0, 0, 7), 0)
        scales = (0.08, 1 / 256, 0.0065)
        types = [quantized("uint8", *rest) for rest in zip(shapes, scales, points, strict=True)]
        return [(type_, random_values(draw, type_)) for type_ in types]
    encodings = draw.rng.normal(0, 1, shapes[0])
    scores = draw.rng.random(shapes[1])
    if draw.pick(True, False):
        scores = np.floor(scores * 6) / 6
    arrays = (encodings, scores, draw.rng.random(shapes[2]))
    return [(TensorType("float32", array.shape), array.astype(np.float32)) for array in arrays]


@generator("TFLite_Detection_PostProcess float32")
def make_float32(draw: Draw) -> OneOperator:
    """Real boxes and scores."""
    return detection(draw, "float32")


@generator("TFLite_Detection_PostProcess uint8")
def make_uint8(draw: Draw) -> OneOperator:
    """Codes, dequantized by the operator."""
    return detection(draw, "uint8")


def detection(draw: Draw, dtype: str) -> OneOperator:
    """All results are filled: the interpreter leaves others as its memory was."""
    classes, background = draw.pick(1, 2, 5, 9), draw.pick(0, 1)
    regular = bool(draw.pick(True, False))
    per_box = 1 if regular else draw.pick(1, 1, 2, classes)
    per_box, count = min(per_box, classes), draw.pick(9, 20, 57)
    detections = draw.pick(1, 2) if not regular else draw.pick(1, 3, 10)
    options = {
        "max_detections": detections,
        "max_classes_per_detection": per_box,
        "num_classes": classes,
        "nms_score_threshold": float(draw.pick(-1.0, 0.0)),
        "nms_iou_threshold": float(draw.pick(0.5, 0.6, 1.0)),
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
        "use_regular_nms": regular,
        "detections_per_class": draw.pick(1, 4, 100),
    }
    operands = _operands(draw, dtype, count, classes + background)
    slots = detections * per_box
    shapes = ((1, slots, 4), (1, slots), (1, slots), (1,))
    model = ModelBuilder()
    data = (None, None, operands[2][1])
    sources = [add_tensor(model, x, constant) for (x, _), constant in zip(operands, data, strict=True)]
    targets = [add_tensor(model, TensorType("float32", shape)) for shape in shapes]
    model.operator(
        "CUSTOM",
        sources,
        targets,
        custom_code="TFLite_Detection_PostProcess",
        custom_options=options_of(**options),
    )
    values = [array for _, array in operands[:2]]
    text = f"TFLite_Detection_PostProcess {', '.join(str(x) for x, _ in operands)} {options}"
    return OneOperator(model.build(sources[:2], targets), (values,), text)
