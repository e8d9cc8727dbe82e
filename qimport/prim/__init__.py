"""The prim dialect: integer primitives without scales, only multipliers, shifts, tables and bounds."""

from qimport.prim.data import Concat, Pad, Reshape, Slice, Transpose
from qimport.prim.elementwise import (
    Binary,
    Cast,
    Clamp,
    DivRound,
    Lut,
    Rescale,
    ToInt,
)
from qimport.prim.mac import Mac
from qimport.prim.reduce import Reduce, Window
from qimport.prim.softmax import Softmax

__all__ = [
    "Binary",
    "Cast",
    "Clamp",
    "Concat",
    "DivRound",
    "Lut",
    "Mac",
    "Pad",
    "Reduce",
    "Rescale",
    "Reshape",
    "Slice",
    "Softmax",
    "ToInt",
    "Transpose",
    "Window",
]
