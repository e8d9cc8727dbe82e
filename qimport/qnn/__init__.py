"""The qnn dialect: one class per operation on quantized tensors, with specification and semantics."""

from qimport.qnn.base import QnnOperation
from qimport.qnn.binary import Add, Mul, Sub
from qimport.qnn.concat import Concat
from qimport.qnn.conv2d import Conv2d
from qimport.qnn.dense import Dense
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d
from qimport.qnn.mean import Mean
from qimport.qnn.pack import Pack
from qimport.qnn.pad import Pad
from qimport.qnn.pool2d import AveragePool2d, MaxPool2d
from qimport.qnn.quantize import Dequantize, Quantize, Requantize
from qimport.qnn.reshape import Reshape
from qimport.qnn.shape import Shape
from qimport.qnn.softmax import Softmax
from qimport.qnn.strided_slice import StridedSlice
from qimport.qnn.unary import HardSwish, Logistic, Relu, Relu0To1, Relu6, ReluN1To1, Tanh

__all__ = [
    "Add",
    "AveragePool2d",
    "Concat",
    "Conv2d",
    "Dense",
    "DepthwiseConv2d",
    "Dequantize",
    "HardSwish",
    "Logistic",
    "MaxPool2d",
    "Mean",
    "Mul",
    "Pack",
    "Pad",
    "QnnOperation",
    "Quantize",
    "Relu",
    "Relu0To1",
    "Relu6",
    "ReluN1To1",
    "Requantize",
    "Reshape",
    "Shape",
    "Softmax",
    "StridedSlice",
    "Sub",
    "Tanh",
]
