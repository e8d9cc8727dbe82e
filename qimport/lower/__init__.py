"""From the qnn dialect to prim graphs and kernel plans. Importing this package enters every lowering rule."""

from qimport.lower import (
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

__all__ = [
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
