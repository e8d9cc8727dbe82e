"""The prim dialect: integer primitives without scales, only multipliers, shifts, tables and bounds."""

from qimport.prim.activation16 import Activation16
from qimport.prim.arithmetic import Binary, Cast, Compare, Select
from qimport.prim.data import Concat, Pad, Reshape, Slice, Transpose
from qimport.prim.elementwise import (
    Clamp,
    DivRound,
    Lut,
    ToInt,
)
from qimport.prim.mac import Mac
from qimport.prim.math import Math
from qimport.prim.reduce import Reduce, Window
from qimport.prim.rescale import Rescale
from qimport.prim.softmax import Softmax

__all__ = [
    "Activation16",
    "Binary",
    "Cast",
    "Clamp",
    "Compare",
    "Concat",
    "DivRound",
    "Lut",
    "Mac",
    "Math",
    "Pad",
    "Reduce",
    "Rescale",
    "Reshape",
    "Select",
    "Slice",
    "Softmax",
    "ToInt",
    "Transpose",
    "Window",
]
