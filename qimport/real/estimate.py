"""Square roots as XNNPACK's kernels for AVX-512 compute them: an estimate, refined by Newton's rule.

The estimate is that of the instruction VRSQRT14PS of Intel's processors: linear on 32 parts of every octave,
cut to 16 bits. Lines were fitted to its results for all numbers from 1 to 4, and give every one of them.
"""

from __future__ import annotations

import math

from qimport.real.steps import Lanes, Steps, flushed, not_a_number, settled

_STARTS = """
2d40a80 2c8fc80 2be6e00 2b45200 2aaa600 2a15b80 2987080 28fdc80 2879e80 27fad80 2780280 2709e80
2697a80 2629500 25be880 2557580 24f3380 2492180 2433f80 23d8c80 2380180 2329f00 22d6200 2284c00
2235900 21e8680 219d380 2153f00 210ca80 20c6e80 2083000 2040b00 3fff480 3f05080 3e16280 3d31900
3c56700 3b84380 3aba680 39f8880 393dd00 388a080 37dcb80 3735a00 3694100 35f7d00 3560f80 34ced80
3441380 33b8180 3332f80 32b1c00 3234680 31ba980 3144400 30d1180 3060f80 2ff3d80 2f89b00 2f21f00
2ebcf80 2e5ab00 2dfa780 2d9cd00
"""
_SLOPES = """
2c3 2a3 287 26b 253 23b 225 20f 1fd 1eb 1d9 1c9 1b9 1ab 19d 191 185 179 16d 163
159 14f 145 13d 135 12d 125 11d 117 10f 109 103 3e9 3bb 393 36d 349 327 307 2eb
2cf 2b5 29d 287 271 25b 249 237 225 215 205 1f5 1e7 1d9 1cd 1c1 1b5 1a9 19f 193
189 181 177 16f
"""
"""Of lines from 2 to 4, then from 1 to 2, in units of 2^-26, in hexadecimal: at the start of each part, and
the loss per 2^-14 (from 1 on, 2^-15) of the operand."""

_LINES = [[float(int(number, 16)) for number in numbers.split()] for numbers in (_STARTS, _SLOPES)]
_MAGIC = 1.5 * 2.0**52
"""Adding it leaves an integer in the low bits of a float64."""

_EXPONENT_AND_FRACTION = (1 << 53) - 1


def _estimate(at: Steps, x: Lanes) -> Lanes:
    """About 1 / sqrt(x) in float64 for normal float32 x > 0; exact for powers of four."""
    bits = at.bits(x)
    part = bits >> 47
    place = at.floats(((bits >> 37) & 1023) | (0x433 << 52)) - 2.0**52
    line = at.pick(part, _LINES[0]) - at.pick(part, _LINES[1]) * place
    cut = ((line * 2.0**-9 - (0.5 - 2.0**-10)) + _MAGIC) - _MAGIC
    cut = at.choose((bits & _EXPONENT_AND_FRACTION) == 1 << 52, 2.0**17, cut)
    power = at.floats((2047 - (((bits >> 52) + 1025) >> 1)) << 52)
    return cut * power * 2.0**-17


def _refined(at: Steps, x: Lanes) -> Lanes:
    """One step of Newton's rule."""
    estimate = at.rounded(_estimate, x)
    excess = x * flushed(at, estimate * estimate) - 1.0
    return estimate - excess * (0.5 * estimate)


def square_root(at: Steps, x: Lanes) -> Lanes:
    """``f32_vsqrt``: x / sqrt(x)."""
    x = flushed(at, x)
    root = at.choose(x > 0.0, at.choose(x < math.inf, x * _refined(at, x), x), x)
    return settled(at, x, at.choose(x < 0.0, not_a_number(at, x), root))


def reciprocal_square_root(at: Steps, x: Lanes) -> Lanes:
    """``f32_vrsqrt``: NaN for zeros."""
    x = flushed(at, x)
    root = at.choose(x < math.inf, _refined(at, x), 0.0)
    return at.choose(x > 0.0, root, at.choose(x == x, not_a_number(at, x), x))
