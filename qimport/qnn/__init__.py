"""The qnn dialect: one class per operation on quantized tensors, with specification and semantics."""

from qimport.qnn.arithmetic import AddN, Arithmetic, LogicalNot
from qimport.qnn.atan2 import Atan2
from qimport.qnn.base import QnnOperation
from qimport.qnn.batch_matmul import BatchMatmul
from qimport.qnn.batch_matmul_sums import BatchMatmulSums
from qimport.qnn.binary import Mul
from qimport.qnn.bitcast import Bitcast
from qimport.qnn.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth
from qimport.qnn.blockwise_dense import BlockwiseDense
from qimport.qnn.blockwise_embedding import BlockwiseEmbedding
from qimport.qnn.cast import Cast
from qimport.qnn.compare import Compare
from qimport.qnn.concat import Concat
from qimport.qnn.control_flow import If, While
from qimport.qnn.conv2d import Conv2d
from qimport.qnn.dense import Dense
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d
from qimport.qnn.detection import DetectionPostprocess
from qimport.qnn.div import Div
from qimport.qnn.dynamic_slice import DynamicSlice, DynamicUpdateSlice
from qimport.qnn.float_batch_matmul import FloatBatchMatmul, HybridBatchMatmul
from qimport.qnn.float_conv2d import FloatConv2d
from qimport.qnn.float_conv3d import FloatConv3d
from qimport.qnn.float_conv3d_transpose import FloatConv3dTranspose
from qimport.qnn.float_dense import FloatDense
from qimport.qnn.float_depthwise_conv2d import FloatDepthwiseConv2d
from qimport.qnn.float_transpose_conv import FloatTransposeConv
from qimport.qnn.gather import EmbeddingLookup, Gather, GatherNd
from qimport.qnn.hard_swish import HardSwish
from qimport.qnn.hybrid_conv2d import HybridConv2d
from qimport.qnn.hybrid_dense import HybridDense
from qimport.qnn.hybrid_depthwise_conv2d import HybridDepthwiseConv2d
from qimport.qnn.hybrid_transpose_conv import HybridTransposeConv
from qimport.qnn.index import Index
from qimport.qnn.l2_normalization import L2Normalization
from qimport.qnn.local_response_normalization import LocalResponseNormalization
from qimport.qnn.log_softmax import LogSoftmax
from qimport.qnn.lstm import Lstm
from qimport.qnn.lstm_basic import BasicLstm
from qimport.qnn.matrix_diag import MatrixDiag, MatrixSetDiag
from qimport.qnn.mean import Mean
from qimport.qnn.mirror_pad import MirrorPad
from qimport.qnn.one_hot import OneHot
from qimport.qnn.ordering import ArgMax, ArgMin, Cumsum, TopK
from qimport.qnn.pack import Pack
from qimport.qnn.pad import Pad
from qimport.qnn.pool2d import AveragePool2d, L2Pool2d, MaxPool2d
from qimport.qnn.pow import Pow
from qimport.qnn.prelu import Prelu
from qimport.qnn.quantize import Dequantize, Quantize, Requantize
from qimport.qnn.range import Range
from qimport.qnn.real_function import Ceil, Cos, Floor, Round, Sin, Square
from qimport.qnn.reduce import ReduceAll, ReduceAny, ReduceMax, ReduceMin, ReduceProd, Sum
from qimport.qnn.relu import LeakyRelu, Relu, Relu0To1, Relu6, ReluN1To1
from qimport.qnn.reshape import Reshape
from qimport.qnn.resize import ResizeBilinear, ResizeNearestNeighbor
from qimport.qnn.reverse import Reverse, ReverseSequence
from qimport.qnn.rnn import Rnn
from qimport.qnn.root import Rsqrt, Sqrt
from qimport.qnn.scatter import ScatterNd, SparseToDense
from qimport.qnn.segment import Segment
from qimport.qnn.select import Select
from qimport.qnn.shape import BroadcastArgs, Rank, Shape
from qimport.qnn.sign import Abs, Neg, Sign
from qimport.qnn.softmax import Softmax
from qimport.qnn.spectrum import ComplexAbs, Imag, Real, Rfft2d
from qimport.qnn.split import Split, Unpack
from qimport.qnn.squared_difference import SquaredDifference
from qimport.qnn.strided_slice import StridedSlice
from qimport.qnn.sums import Add, Sub
from qimport.qnn.svdf import Svdf
from qimport.qnn.tabulated import Elu, Exp, Gelu, Log, Logistic, Tanh
from qimport.qnn.tile import BroadcastTo, Tile
from qimport.qnn.transpose import Transpose
from qimport.qnn.transpose_conv import TransposeConv

__all__ = [
    "Abs",
    "Add",
    "AddN",
    "ArgMax",
    "ArgMin",
    "Arithmetic",
    "Atan2",
    "AveragePool2d",
    "BasicLstm",
    "BatchMatmul",
    "BatchMatmulSums",
    "BatchToSpace",
    "Bitcast",
    "BlockwiseDense",
    "BlockwiseEmbedding",
    "BroadcastArgs",
    "BroadcastTo",
    "Cast",
    "Ceil",
    "Compare",
    "ComplexAbs",
    "Concat",
    "Conv2d",
    "Cos",
    "Cumsum",
    "Dense",
    "DepthToSpace",
    "DepthwiseConv2d",
    "Dequantize",
    "DetectionPostprocess",
    "Div",
    "DynamicSlice",
    "DynamicUpdateSlice",
    "Elu",
    "EmbeddingLookup",
    "Exp",
    "FloatBatchMatmul",
    "FloatConv2d",
    "FloatConv3d",
    "FloatConv3dTranspose",
    "FloatDense",
    "FloatDepthwiseConv2d",
    "FloatTransposeConv",
    "Floor",
    "Gather",
    "GatherNd",
    "Gelu",
    "HardSwish",
    "HybridBatchMatmul",
    "HybridConv2d",
    "HybridDense",
    "HybridDepthwiseConv2d",
    "HybridTransposeConv",
    "If",
    "Imag",
    "Index",
    "L2Normalization",
    "L2Pool2d",
    "LeakyRelu",
    "LocalResponseNormalization",
    "Log",
    "LogSoftmax",
    "LogicalNot",
    "Logistic",
    "Lstm",
    "MatrixDiag",
    "MatrixSetDiag",
    "MaxPool2d",
    "Mean",
    "MirrorPad",
    "Mul",
    "Neg",
    "OneHot",
    "Pack",
    "Pad",
    "Pow",
    "Prelu",
    "QnnOperation",
    "Quantize",
    "Range",
    "Rank",
    "Real",
    "ReduceAll",
    "ReduceAny",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "Relu",
    "Relu0To1",
    "Relu6",
    "ReluN1To1",
    "Requantize",
    "Reshape",
    "ResizeBilinear",
    "ResizeNearestNeighbor",
    "Reverse",
    "ReverseSequence",
    "Rfft2d",
    "Rnn",
    "Round",
    "Rsqrt",
    "ScatterNd",
    "Segment",
    "Select",
    "Shape",
    "Sign",
    "Sin",
    "Softmax",
    "SpaceToBatch",
    "SpaceToDepth",
    "SparseToDense",
    "Split",
    "Sqrt",
    "Square",
    "SquaredDifference",
    "StridedSlice",
    "Sub",
    "Sum",
    "Svdf",
    "Tanh",
    "Tile",
    "TopK",
    "Transpose",
    "TransposeConv",
    "Unpack",
    "While",
]
