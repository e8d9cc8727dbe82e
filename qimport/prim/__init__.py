"""The prim dialect: integer primitives without scales, only multipliers, shifts, tables and bounds."""

from qimport.prim.activation16 import Activation16
from qimport.prim.arithmetic import Binary, Cast, Compare, Select
from qimport.prim.bits import LeadingZeros
from qimport.prim.control_flow import If, While
from qimport.prim.data import Bitcast, Broadcast, Concat, Pad, Reshape, Slice, Transpose
from qimport.prim.detection import Detect
from qimport.prim.elementwise import (
    Clamp,
    DivRound,
    Lut,
    ToInt,
)
from qimport.prim.fft import Fft
from qimport.prim.float_mac import FloatMac, Fma
from qimport.prim.gather import DynamicSlice, Gather, GatherNd, ScatterNd, UpdateSlice
from qimport.prim.layer_norm16 import LayerNorm16
from qimport.prim.lookup import Lut16
from qimport.prim.mac import Mac
from qimport.prim.math import Math
from qimport.prim.ordering import ArgReduce, Cumulate, TopK
from qimport.prim.pair import PairSum
from qimport.prim.reduce import (
    Reduce,
    ReduceKind,
    ReduceStart,
    RescaledProduct,
    RowSum,
    Window,
    WindowKind,
)
from qimport.prim.rescale import Rescale
from qimport.prim.resize import Interpolate, Sample
from qimport.prim.scale_codes import ScaleCodes
from qimport.prim.softmax import Softmax

__all__ = [
    "Activation16",
    "ArgReduce",
    "Binary",
    "Bitcast",
    "Broadcast",
    "Cast",
    "Clamp",
    "Compare",
    "Concat",
    "Cumulate",
    "Detect",
    "DivRound",
    "DynamicSlice",
    "Fft",
    "FloatMac",
    "Fma",
    "Gather",
    "GatherNd",
    "If",
    "Interpolate",
    "LayerNorm16",
    "LeadingZeros",
    "Lut",
    "Lut16",
    "Mac",
    "Math",
    "Pad",
    "PairSum",
    "Reduce",
    "ReduceKind",
    "ReduceStart",
    "Rescale",
    "RescaledProduct",
    "Reshape",
    "RowSum",
    "Sample",
    "ScaleCodes",
    "ScatterNd",
    "Select",
    "Slice",
    "Softmax",
    "ToInt",
    "TopK",
    "Transpose",
    "UpdateSlice",
    "While",
    "Window",
    "WindowKind",
]
