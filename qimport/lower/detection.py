"""TFLite_Detection_PostProcess: boxes decoded by elementwise nodes, then one primitive that chooses."""

from __future__ import annotations

from qimport import prim
from qimport.fixedpoint import f32
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.detection import BLOCK, DetectionPostprocess


@rule(DetectionPostprocess)
def lower_detection_postprocess(emit: Emitter, op: DetectionPostprocess, use: Use) -> tuple[Value, ...]:
    """The four results are views of one vector."""
    encodings, scores, anchors = (use.operand(i) for i in range(3))
    count, width = encodings.type.shape[1:]
    boxes = _decode(
        emit, op, emit.reshape(_plain(emit, use, 0, encodings), (count, width)), _plain(emit, use, 2, anchors)
    )
    scored = emit.reshape(_in_blocks(emit, use, 1, scores), scores.type.shape[1:])
    detect = prim.Detect(
        op.classes,
        op.detections,
        op.per_box,
        op.per_class,
        op.regular,
        op.score_threshold,
        op.overlap_threshold,
    )
    size = 6 * op.slots + 1 + detect.scratch(count)
    found = emit.emit(detect, (boxes, scored), TensorType("float32", (size,)))
    results, start = [], 0
    for out in use.call.outputs:
        part = emit.slice(found, (start,), (out.size,), (1,))
        results.append(emit.reshape(part, out.shape))
        start += out.size
    return tuple(results)


def _decode(emit: Emitter, op: DetectionPostprocess, encodings: Value, anchors: Value) -> Value:
    """:meth:`DetectionPostprocess.decode`."""
    count = anchors.type.shape[0]

    def column(x: Value, k: int) -> Value:
        return emit.cast(emit.slice(x, (0, k), (count, 1), (1, 1)), "float64")

    sides = []
    for k in (0, 1):
        extent = column(anchors, k + 2)
        scaled = emit.binary("div", column(encodings, k), op.scales[k])
        centre = emit.binary("add", emit.binary("mul", scaled, extent), column(anchors, k))
        grown = emit.math("exp", emit.binary("div", column(encodings, k + 2), op.scales[k + 2]))
        half = emit.binary("mul", emit.binary("mul", grown, 0.5), extent)
        centre, half = emit.cast(centre, "float32"), emit.cast(half, "float32")
        sides.append((emit.binary("sub", centre, half), emit.binary("add", centre, half)))
    (top, bottom), (left, right) = sides
    return emit.concat((top, left, bottom, right), 1)


def _plain(emit: Emitter, use: Use, position: int, x: Value) -> Value:
    type_ = use.call.input(position)
    if type_.dtype == "float32":
        return x
    centred = emit.binary("sub", emit.cast(x, "int32"), type_.quant.zero_point)
    return emit.binary("mul", emit.cast(centred, "float32"), type_.quant.scale)


def _in_blocks(emit: Emitter, use: Use, position: int, x: Value) -> Value:
    type_ = use.call.input(position)
    if type_.dtype == "float32":
        return x
    scale, zero_point = type_.quant.scale, type_.quant.zero_point

    def body(part: Value) -> Value:
        scaled = emit.binary("mul", emit.cast(part, "float32"), scale)
        return emit.binary("add", scaled, f32(f32(-zero_point) * scale))

    return emit.in_blocks(x, BLOCK, body, lambda part: _plain(emit, use, position, part))
