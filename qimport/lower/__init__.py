"""From the qnn dialect to prim graphs and kernel plans. Importing this package enters every lowering rule."""

from qimport.lower import (
    concat,
    pack,
    pad,
    quantize,
    reshape,
    shape,
    softmax,
    strided_slice,
    unary,
)

__all__ = [
    "concat",
    "pack",
    "pad",
    "quantize",
    "reshape",
    "shape",
    "softmax",
    "strided_slice",
    "unary",
]
