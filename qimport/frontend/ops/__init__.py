"""One importer function per operator of TFLite; :data:`IMPORTERS` lists them by builtin name."""

from qimport.frontend.ops import (
    binary,
    concat,
    conv2d,
    dense,
    depthwise_conv2d,
    mean,
    pack,
    pad,
    pool2d,
    quantize,
    reshape,
    shape,
    softmax,
    strided_slice,
    unary,
)
from qimport.frontend.ops.context import IMPORTERS

__all__ = [
    "IMPORTERS",
    "binary",
    "concat",
    "conv2d",
    "dense",
    "depthwise_conv2d",
    "mean",
    "pack",
    "pad",
    "pool2d",
    "quantize",
    "reshape",
    "shape",
    "softmax",
    "strided_slice",
    "unary",
]
