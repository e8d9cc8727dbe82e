"""What :mod:`qimport.qnn.lost_pairs` takes off sums: a window of two taps over a map of the lowest codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter
from qimport.qnn.lost_pairs import LOST, LOWEST, pairs_of, weights_by_tap


def emit_lost_pairs(emit: Emitter, acc: Value, x: Value, w: Value, mac: prim.Mac) -> Value:
    """``acc``, which ``mac`` computed, less what the kernel loses; ``w`` is OHWI and constant."""
    assert w.data is not None
    lowest = emit.lut(x, (np.arange(-128, 128) == LOWEST).astype(np.int8))
    outside = int(mac.input_zero == LOWEST)
    no_bias = emit.constant(np.zeros(w.type.shape[0], np.int32))
    for first, second, channels in pairs_of(weights_by_tap(w.data)):
        window = np.zeros(w.type.shape, np.int8)
        for row, column in (first, second):
            window[:, row, column] = 1
        both = replace(mac, input_zero=outside, weight_zero=0)
        count = emit.emit(both, (lowest, emit.constant(window), no_bias), acc.type)
        # The operator takes off the zero point of both taps; 2 less one are both, 1 less one is not.
        pair = emit.binary("max", emit.binary("sub", count, 1 - 2 * outside), 0)
        loss = emit.constant(np.where(channels, LOST, 0).astype(np.int32))
        acc = emit.binary("sub", acc, emit.binary("mul", pair, loss))
    return acc
