"""The prim dialect: integer primitives without scales, only multipliers, shifts, tables and bounds."""

from qimport.prim.activation16 import Activation16
from qimport.prim.arithmetic import Binary, Cast, Compare, Select
from qimport.prim.data import Broadcast, Concat, Pad, Reshape, Slice, Transpose
from qimport.prim.elementwise import (
    Clamp,
    DivRound,
    Lut,
    ToInt,
)
from qimport.prim.float_mac import FloatMac, Fma
from qimport.prim.gather import DynamicSlice, Gather, GatherNd, ScatterNd, UpdateSlice
from qimport.prim.layer_norm16 import LayerNorm16
from qimport.prim.mac import Mac
from qimport.prim.math import Math
from qimport.prim.reduce import Reduce, RescaledProduct, RowSum, Window
from qimport.prim.rescale import Rescale
from qimport.prim.softmax import Softmax

__all__ = [
    "Activation16",
    "Binary",
    "Broadcast",
    "Cast",
    "Clamp",
    "Compare",
    "Concat",
    "DivRound",
    "DynamicSlice",
    "FloatMac",
    "Fma",
    "Gather",
    "GatherNd",
    "LayerNorm16",
    "Lut",
    "Mac",
    "Math",
    "Pad",
    "Reduce",
    "RescaledProduct",
    "Rescale",
    "Reshape",
    "RowSum",
    "ScatterNd",
    "Select",
    "Slice",
    "Softmax",
    "ToInt",
    "Transpose",
    "UpdateSlice",
    "Window",
]
