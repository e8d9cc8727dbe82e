"""int16 LOGISTIC and TANH: a table of 256 numbers with straight lines between, or gemmlowp's fixed point.

With an input scale of 2^-12, for TANH also 2^-11 (within a thousandth of the exponent), builtin and xnnpack
compute gemmlowp's functions on 16 bits, TANH of sat16(x << k), k = 1 for 2^-11 (``optimized_ops``).
Otherwise, and in reference (``reference_integer_ops``): m = s_in * 4096 * 3 is doubled h times until it is
over 16383.5, then cut to an integer; m = 3 << k and h = 0 for the scales named above. v = (x * m + 2^(h-1))
>> h, no rounding for h = 0. SIGMOID has a step of 1/24, T below is that table and a = |v|:

logistic: u = a >> 9; r = 0x7FFF << 10 if u >= 255, else (T[u] << 9) + (a & 511) * (T[u + 1] - T[u]);
(r + 512) >> 10 for v from 0 on, else (2^25 - r + 511) >> 10.
tanh: u = a >> 8; r = 0xFFFF << 8 if u >= 255, else (T[u] << 8) + (a & 255) * (T[u + 1] - T[u]);
(r - 2^23 + 128) >> 8 for v from 0 on, else (2^23 - r + 127) >> 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.numerics import Family

_NUMBERS = """
32768 33451 34133 34813 35493 36169 36843 37513 38180 38841 39498 40149 40794 41432 42064 42688 43304 43912
44511 45102 45683 46255 46817 47369 47911 48443 48964 49475 49975 50464 50942 51409 51865 52311 52745 53169
53581 53983 54374 54755 55125 55485 55834 56174 56503 56823 57133 57433 57724 58007 58280 58544 58800 59048
59288 59519 59743 59959 60168 60370 60565 60753 60935 61110 61279 61441 61599 61750 61896 62036 62172 62302
62428 62549 62666 62778 62886 62990 63090 63186 63279 63368 63454 63536 63615 63691 63765 63835 63903 63968
64030 64090 64148 64204 64257 64308 64357 64405 64450 64494 64536 64576 64614 64652 64687 64721 64754 64786
64816 64845 64873 64900 64926 64950 64974 64997 65019 65039 65060 65079 65097 65115 65132 65149 65164 65179
65194 65208 65221 65234 65246 65258 65269 65280 65291 65301 65310 65319 65328 65337 65345 65352 65360 65367
65374 65381 65387 65393 65399 65404 65410 65415 65420 65425 65429 65433 65438 65442 65445 65449 65453 65456
65459 65462 65465 65468 65471 65474 65476 65479 65481 65483 65485 65488 65489 65491 65493 65495 65497 65498
65500 65501 65503 65504 65505 65507 65508 65509 65510 65511 65512 65513 65514 65515 65516 65517 65517 65518
65519 65520 65520 65521 65522 65522 65523 65523 65524 65524 65525 65525 65526 65526 65526 65527 65527 65528
65528 65528 65529 65529 65529 65529 65530 65530 65530 65530 65531 65531 65531 65531 65531 65532 65532 65532
65532 65532 65532 65533 65533 65533 65533 65533 65533 65533 65533 65534 65534 65534 65534 65534 65534 65534
65534 65534 65534 65535
"""
SIGMOID = np.array(_NUMBERS.split(), np.int64)
"""About 65536 / (1 + exp(-i / 24)), as the interpreter tabulates it."""


@dataclass(frozen=True)
class InputScale:
    """How codes are brought to the table's step.

    ``multiplier`` and ``shift`` are m and h; ``power`` is k where the scale is 2^(k - 12), else None.
    """

    multiplier: int
    shift: int
    power: int | None

    @classmethod
    def of(cls, scale: float, powers: int) -> InputScale:
        """For a float32 scale; the function has a way of its own for ``powers`` scales from 2^-12 on."""
        exponent = np.float32(np.log(np.float32(scale))) * np.float32(1 / np.log(np.float32(2)))
        nearest = fp.round_away(exponent)
        power = 12 + int(nearest)
        if abs(exponent - nearest) < 1e-3 and 0 <= power < powers:
            return cls(3 << power, 0, power)
        fraction, shift = scale * 4096 * 3, 0
        while fraction <= 32767 / 2 and shift <= 30:
            fraction, shift = fraction * 2, shift + 1
        return cls(math.trunc(fraction), shift, None)

    def steps(self, x: Int) -> Int:
        """v."""
        rounding = 1 << (self.shift - 1) if self.shift else 0
        return np.asarray(fp.wrap32(x * self.multiplier + rounding) >> self.shift, np.int64)


def logistic(x: Int, scale: float, family: Family) -> Int:
    """Codes of 1 / 32768 for codes of ``scale``."""
    given = InputScale.of(scale, LOGISTIC_POWERS)
    if given.power is not None and family != "reference":
        return fp.logistic_int16(x)
    v = given.steps(x)
    r = _line(np.abs(v), 9, 0x7FFF << 10)
    return fp.wrap16(np.where(v >= 0, r + 512, 2**25 - r + 511) >> 10)


def tanh(x: Int, scale: float, family: Family) -> Int:
    """Codes of 1 / 32768 for codes of ``scale``."""
    given = InputScale.of(scale, TANH_POWERS)
    if given.power is not None and family != "reference":
        return fp.tanh_int16(np.clip(x << given.power, -(2**15), 2**15 - 1), 3)
    v = given.steps(x)
    r = _line(np.abs(v), 8, 0xFFFF << 8)
    return fp.wrap16(np.where(v >= 0, r - 2**23 + 128, 2**23 - r + 127) >> 8)


LOGISTIC_POWERS, TANH_POWERS = 1, 2


def _line(a: Int, bits: int, beyond: int) -> Int:
    place = a >> bits
    u = np.minimum(place, 254)
    line = (SIGMOID[u] << bits) + (a & ((1 << bits) - 1)) * (SIGMOID[u + 1] - SIGMOID[u])
    return np.where(place >= 255, beyond, line)
