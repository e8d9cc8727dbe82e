"""CONV_3D and CONV_3D_TRANSPOSE of float32 tensors."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from qimport.qnn.float_conv3d import FloatConv3d
from qimport.qnn.float_conv3d_transpose import FloatConv3dTranspose
from tests.cases import ACTIVATIONS, Draw, OperatorCase, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.float_weighted import fed, known
from tests.one_operator.model import OneOperator, generator


def conv3d_case(draw: Draw) -> OperatorCase:
    """Windows, strides, dilations, SAME and VALID; with and without bias; weights that are computed."""
    dims = range(3)
    size = tuple(int(draw.rng.integers(1, 4)) for _ in dims)
    stride = tuple(int(draw.pick(1, 1, 2, 3)) for _ in dims)
    dilation = tuple(int(draw.pick(1, 1, 1, 2)) for _ in dims)
    reach = tuple((k - 1) * d + 1 for k, d in zip(size, dilation, strict=True))
    name = draw.pick("SAME", "VALID")
    extent = tuple(int(draw.rng.integers(n if name == "VALID" else 1, n + 4)) for n in reach)
    pads, counts = [], []
    for n, k, s in zip(extent, reach, stride, strict=True):
        count = -(-n // s) if name == "SAME" else (n - k) // s + 1
        total = max((count - 1) * s + k - n, 0) if name == "SAME" else 0
        pads.append((total // 2, total - total // 2))
        counts.append(count)
    channels, outputs = int(draw.pick(1, 2, 3, 5)), int(draw.pick(1, 2, 3, 8, 17))
    x = fed(draw, (int(draw.pick(1, 2)), *extent, channels))
    w = draw.pick(known, known, fed)(draw, (*size, channels, outputs))
    bias = known(draw, (outputs,)) if draw.pick(True, False) else None
    activation = draw.pick(*ACTIVATIONS)
    op = FloatConv3d(stride, dilation, tuple(pads), activation)  # type: ignore[arg-type]
    options = {"padding": name, "fused_activation_function": activation}
    for axis, step, apart in zip("dhw", stride, dilation, strict=True):
        options |= {f"stride_{axis}": step, f"dilation_{axis}_factor": apart}
    out = TensorType("float32", (x.type.shape[0], *counts, outputs))
    return OperatorCase(op, (x, w, bias), out, "CONV_3D", options, version=1)


@generator("CONV_3D float32")
def conv3d(draw: Draw) -> OneOperator:
    """A convolution."""
    return OneOperator.of(conv3d_case(draw))


class Conv3dTransposeCase(OperatorCase):
    """Writes the operands in the order of the file: the result's shape, weights, image, bias."""

    def file(self) -> bytes:
        """The .tflite file of the only operator."""
        model = ModelBuilder()
        x, w, bias = self.operands
        assert x is not None and w is not None
        shape = model.tensor((5,), "int32", data=np.array(self.output.shape, np.int32))
        weights, image = add_tensor(model, w.type, w.data), add_tensor(model, x.type)
        operands = [shape, weights, image]
        if bias is not None:
            operands.append(add_tensor(model, bias.type, bias.data))
        output = add_tensor(model, self.output)
        model.operator(self.builtin, operands, [output], 1, **self.options)
        return model.build([image], [output])


def conv3d_transpose_case(draw: Draw) -> OperatorCase:
    """Windows larger and smaller than the stride, SAME and VALID, with and without bias."""
    dims = range(3)
    size = tuple(int(draw.rng.integers(1, 4)) for _ in dims)
    stride = tuple(int(draw.pick(1, 1, 2, 3)) for _ in dims)
    extent = tuple(int(draw.rng.integers(1, 4)) for _ in dims)
    name = draw.pick("SAME", "VALID")
    counts, offset = [], []
    for n, k, s in zip(extent, size, stride, strict=True):
        spare = int(draw.rng.integers(s))
        count = n * s - spare if name == "SAME" else (n - 1) * s + k + spare
        counts.append(count)
        offset.append(max((n - 1) * s + k - count, 0) // 2 if name == "SAME" else 0)
    channels, outputs = int(draw.pick(1, 2, 3, 5)), int(draw.pick(1, 2, 3, 8))
    x, w = fed(draw, (int(draw.pick(1, 2)), *extent, channels)), known(draw, (*size, outputs, channels))
    bias = known(draw, (outputs,)) if draw.pick(True, False) else None
    activation = draw.pick(*ACTIVATIONS)
    op = FloatConv3dTranspose(stride, tuple(offset), activation)  # type: ignore[arg-type]
    options = {"padding": name, "fused_activation_function": activation}
    options |= {f"stride_{axis}": step for axis, step in zip("dhw", stride, strict=True)}
    out = TensorType("float32", (x.type.shape[0], *counts, outputs))
    return Conv3dTransposeCase(op, (x, w, bias), out, "CONV_3D_TRANSPOSE", options)


@generator("CONV_3D_TRANSPOSE float32")
def conv3d_transpose(draw: Draw) -> OneOperator:
    """A transposed convolution."""
    return OneOperator.of(conv3d_transpose_case(draw))
