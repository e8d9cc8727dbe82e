"""CONV_3D."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import read_floats
from qimport.frontend.ops.weighted import bias_vector
from qimport.frontend.ops.window import Along, along
from qimport.ir.graph import Value
from qimport.qnn.float_conv3d import FloatConv3d

AXES = ("d", "h", "w")
"""Depth, height and width in the names of options."""


@importer("CONV_3D", versions=range(1, 2))
def conv3d(context: OperatorContext) -> None:
    """NDHWC times [KD, KH, KW, C, O], float32 only."""
    context.operands(2, 3)
    x, weights, bias = read_floats(context)
    checks.rank(context, x, 5)
    checks.rank(context, weights, 5)
    if x.type.shape[4] != weights.type.shape[3]:
        sentence = f"the weights have shape {weights.type.shape} for {x.type.shape[4]} input channels"
        context.misfit(sentence, weights)
    stride, dilation = _steps(context, "stride_{}"), _steps(context, "dilation_{}_factor")
    rooms = _rooms(context, x, weights, stride, dilation)
    op = FloatConv3d(
        stride=stride,
        dilation=dilation,
        padding=(rooms[0].padding, rooms[1].padding, rooms[2].padding),
        activation=checks.activation(context),
    )
    outputs = weights.type.shape[4]
    bias = bias_vector(context, bias, outputs)
    context.emit(op, (x, weights, bias), (x.type.shape[0], *(room.count for room in rooms), outputs))


def _steps(context: OperatorContext, name: str) -> tuple[int, int, int]:
    depth, height, width = (context.option(name.format(axis)) for axis in AXES)
    if min(depth, height, width) < 1:
        context.malformed(f"{name.format('*')} is {(depth, height, width)}; expected at least 1")
    return depth, height, width


def _rooms(
    context: OperatorContext,
    x: Value,
    weights: Value,
    stride: tuple[int, int, int],
    dilation: tuple[int, int, int],
) -> list[Along]:
    same = context.option("padding") == "SAME"
    sizes, window = x.type.shape[1:4], weights.type.shape[:3]
    rooms = [along(*each, same) for each in zip(sizes, window, stride, dilation, strict=True)]
    if min(room.count for room in rooms) < 1 or min(window) < 1:
        context.misfit(f"a window of {window} with dilation {dilation} does not fit into {sizes}", x)
    return rooms
