"""CONV_3D and CONV_3D_TRANSPOSE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import read_floats
from qimport.frontend.ops.weighted import bias_vector
from qimport.frontend.ops.window import Along, along
from qimport.ir.graph import Value
from qimport.qnn.float_conv3d import FloatConv3d
from qimport.qnn.float_conv3d_transpose import FloatConv3dTranspose

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


@importer("CONV_3D_TRANSPOSE", versions=range(1, 2))
def conv3d_transpose(context: OperatorContext) -> None:
    """(shape of the result, weights [KD, KH, KW, O, C], x NDHWC, bias), float32 only."""
    context.operands(3, 4)
    shape = context.integers(0, "shape of the result")
    x, weights, bias = read_floats(context, (2, 1, 3))
    checks.rank(context, x, 5)
    checks.rank(context, weights, 5)
    *window, outputs, channels = weights.type.shape
    batch, *extent, depth = x.type.shape
    if depth != channels or len(shape) != 5 or shape[0] != batch or shape[4] != outputs:
        sentence = f"the weights have shape {weights.type.shape} for a result of shape {shape}"
        context.misfit(f"{sentence} and {depth} input channels", weights)
    stride, dilation = _steps(context, "stride_{}"), _steps(context, "dilation_{}_factor")
    context.require(dilation == (1, 1, 1), f"the dilation is {dilation}; expected (1, 1, 1)")
    same = context.option("padding") == "SAME"
    rooms = [along(*each, 1, same) for each in zip(shape[1:4], window, stride, strict=True)]
    if [room.count for room in rooms] != extent:
        context.misfit(f"a result of shape {shape} does not come from {tuple(extent)} input voxels", x)
    op = FloatConv3dTranspose(
        stride=stride,
        offset=(rooms[0].padding[0], rooms[1].padding[0], rooms[2].padding[0]),
        activation=checks.activation(context),
    )
    context.emit(op, (x, weights, bias_vector(context, bias, outputs)), shape)


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
