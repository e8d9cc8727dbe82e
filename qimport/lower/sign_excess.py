""":mod:`qimport.qnn.sign_excess` as primitives."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.rule import Emitter
from qimport.qnn.sign_excess import EXCESS, smallest, whole_vectors


def emit_sign_excess(emit: Emitter, codes: Value, weights: Value) -> Value | None:
    """int32 [rows, outputs] for codes int8 [rows, n] and weights int8 [outputs, n]; None where it is 0."""
    rows, depth = codes.type.shape
    outputs, whole = weights.type.shape[0], whole_vectors(depth)
    if whole == 0:
        return None
    if weights.data is None:
        part = emit.slice(weights, (0, 0), (outputs, whole), (1, 1))
        found = emit.cast(emit.compare("equal", part, INTEGER_RANGE["int8"][0]), "int8")
    else:
        found = emit.constant(smallest(weights.data).astype(np.int8))
        if not np.any(found.data):
            return None
    negative = emit.binary("min", emit.slice(codes, (0, 0), (rows, whole), (1, 1)), 0)
    image = emit.reshape(negative, (rows, 1, 1, whole))
    kernel = emit.reshape(found, (outputs, 1, 1, whole))
    mac, no_bias = prim.Mac(), emit.constant(np.zeros(outputs, np.int32))
    sums = emit.emit(mac, (image, kernel, no_bias), mac.result_type(image.type, kernel.type))
    return emit.reshape(emit.binary("mul", sums, EXCESS), (rows, outputs))
