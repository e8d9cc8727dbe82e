"""The integer arithmetic that everything else must equal, in NumPy.

Every number that leaves a compiled model has gone through one of these rules. Names of the TFLite or
gemmlowp functions they equal are given per function. Integer arrays are int64 inside; results are int64
arrays holding int32 values unless said otherwise. Scales are float32 values; where a formula works in float32
every intermediate is rounded to float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
IntLike = int | npt.NDArray[Any]

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

Rounding = Literal[
    "double_away",
    "double_up",
    "exact_up",
    "exact_up_saturated",
    "narrow_up",
    "single_up",
    "float32_even",
    "float64_away",
    "float64_away_saturated",
]
"""How ``prim.rescale`` rounds.

double_away             gemmlowp: high multiply rounded half up, then right shift rounded half away
                        (BUILTIN_REF)
double_up               ruy on x86: high multiply rounded half up, then right shift rounded half up
exact_up                ruy on ARM: high multiply rounded down, then right shift rounded half up: together
                        the exact product is rounded once
exact_up_saturated      XNNPACK on ARM: the same, but left shifts saturate instead of wrapping
narrow_up               XNNPACK on little ARM cores: rounded to 16 bits, then a high multiply of 16 bits
single_up               64-bit accumulators: times a multiplier of 16 bits, one right shift rounded half up
float32_even            XNNPACK: float32 product rounded half to even
float64_away            float64 product rounded half away from zero (reference FULLY_CONNECTED); what leaves
                        int32 becomes INT32_MIN
float64_away_saturated  the same on ARM, where it becomes the nearest int32
"""


def f32(value: float) -> float:
    """Round to the nearest float32, returned exactly widened; infinite beyond its range."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def round_away(value: npt.ArrayLike) -> npt.NDArray[np.floating[Any]]:
    """Nearest integer, ties away from zero (C ``round``); keeps the floating type."""
    x = np.asarray(value)
    truncated = np.trunc(x)
    return np.asarray(np.where(np.abs(x - truncated) >= 0.5, truncated + np.sign(x), truncated), x.dtype)


def float_to_int32(value: npt.ArrayLike, saturate: bool = False) -> Int:
    """C conversion of already rounded floats to int32.

    As x86 does it, NaN and what is out of range give INT32_MIN. ARM saturates, and NaN gives 0.
    """
    x = np.asarray(value, np.float64)
    if saturate:
        return np.clip(np.where(np.isnan(x), 0, x), INT32_MIN, INT32_MAX).astype(np.int64)
    valid = (x >= INT32_MIN) & (x <= INT32_MAX)
    return np.where(valid, np.where(valid, x, 0), INT32_MIN).astype(np.int64)


def wrap32(value: IntLike) -> Int:
    """Reduce modulo 2^32 into the int32 range."""
    return ((np.asarray(value, np.int64) + 2**31) & 0xFFFFFFFF) - 2**31


def wrap16(value: IntLike) -> Int:
    """Reduce modulo 2^16 into the int16 range."""
    return ((np.asarray(value, np.int64) + 2**15) & 0xFFFF) - 2**15


def saturate32(value: IntLike) -> Int:
    """Clamp to the int32 range."""
    return np.clip(np.asarray(value, np.int64), INT32_MIN, INT32_MAX)


def quantize_multiplier(scale: float) -> tuple[int, int]:
    """TFLite ``QuantizeMultiplier``: (multiplier, exponent) with scale = multiplier * 2^(exponent - 31).

    ``scale`` is a float64. A scale under 2^-32 gives (0, 0).
    """
    if scale == 0.0:
        return 0, 0
    fraction, exponent = math.frexp(scale)
    multiplier = int(math.copysign(math.floor(abs(fraction) * 2.0**31 + 0.5), fraction))
    if multiplier == 2**31:
        multiplier //= 2
        exponent += 1
    return (0, 0) if exponent < -31 else (multiplier, exponent)


def saturating_rounding_doubling_high_mul(a: IntLike, b: IntLike) -> Int:
    """gemmlowp ``SaturatingRoundingDoublingHighMul``: round_half_up(a * b / 2^31), saturated."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.asarray(np.minimum((product + 2**30) >> 31, INT32_MAX), np.int64)


def rounding_divide_by_pot(value: IntLike, exponent: IntLike) -> Int:
    """gemmlowp ``RoundingDivideByPOT``: value / 2^exponent, ties away from zero."""
    x, shift = np.asarray(value, np.int64), np.asarray(exponent, np.int64)
    mask = np.asarray((np.int64(1) << shift) - 1, np.int64)
    return np.asarray((x >> shift) + ((x & mask) > (mask >> 1) + (x < 0)), np.int64)


def rounding_shift_right_up(value: IntLike, exponent: IntLike) -> Int:
    """value / 2^exponent, ties towards plus infinity."""
    x, shift = np.asarray(value, np.int64), np.asarray(exponent, np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    return (x + half) >> shift


def multiply_by_quantized_multiplier(
    value: IntLike, multiplier: IntLike, exponent: IntLike, rounding: Rounding = "double_away"
) -> Int:
    """TFLite ``MultiplyByQuantizedMultiplier`` in the double-rounding build.

    ``rounding`` is ``double_away`` (reference kernels) or ``double_up`` (ruy and the NEON-style blocks).
    The left shift of exponents above zero wraps modulo 2^32.
    """
    exponent = np.asarray(exponent, np.int64)
    shifted = wrap32(np.asarray(value, np.int64) << np.maximum(exponent, 0))
    high = saturating_rounding_doubling_high_mul(shifted, multiplier)
    right = np.maximum(-exponent, 0)
    if rounding == "double_away":
        return rounding_divide_by_pot(high, right)
    if rounding == "double_up":
        return rounding_shift_right_up(high, right)
    raise ValueError(f"{rounding} is not a fixed-point rounding")


def multiply_rounding_once(
    value: IntLike, multiplier: IntLike, exponent: IntLike, saturate: bool = False
) -> Int:
    """value * multiplier * 2^(exponent - 31), rounded half up once.

    Exponents from 0 on shift ``value`` left by one more and the product right by one; the left shift wraps
    modulo 2^32 (ruy's NEON kernels), or saturates (XNNPACK's ``rndnu`` requantization).
    """
    exponent = np.asarray(exponent, np.int64)
    right = np.maximum(-exponent, 1)
    shifted = np.asarray(value, np.int64) << (exponent + right)
    high = ((saturate32(shifted) if saturate else wrap32(shifted)) * np.asarray(multiplier, np.int64)) >> 31
    return rounding_shift_right_up(high, right)


def narrow_multiplier(scale: float) -> tuple[int, int]:
    """(multiplier, exponent) of 16 bits, scale = multiplier * 2^(exponent - 15), from a float32 scale."""
    multiplier, exponent = quantize_multiplier(scale)
    narrow = (multiplier + 2**15) >> 16
    return (narrow // 2, exponent + 1) if narrow == 2**15 else (narrow, exponent)


def multiply_in_16_bits(value: IntLike, multiplier: IntLike, exponent: IntLike) -> Int:
    """XNNPACK's ``rndnu16`` requantization: value * 2^exponent as int16, times multiplier / 2^15.

    Both steps round half up and saturate.
    """
    x, exponent = np.asarray(value, np.int64), np.asarray(exponent, np.int64)
    left = saturate32(x << np.maximum(exponent, 0))
    shifted = rounding_shift_right_up(left, np.maximum(-exponent, 0))
    return _high_mul16(np.clip(shifted, INT16_MIN, INT16_MAX), multiplier)


def reduced_multiplier(multiplier: IntLike) -> Int:
    """The 16-bit multiplier that :func:`multiply_by_quantized_multiplier_64` makes of a 32-bit one."""
    m = np.asarray(multiplier, np.int64)
    return np.where(m < 0x7FFF0000, (m + (1 << 15)) >> 16, 0x7FFF)


def multiply_by_quantized_multiplier_64(value: IntLike, multiplier: IntLike, exponent: IntLike) -> Int:
    """TFLite ``MultiplyByQuantizedMultiplier`` of an int64: a 16-bit multiplier, rounded half up once.

    Exponents are less than 15. The product and the result wrap modulo 2^64 and 2^32.
    """
    shift = 15 - np.asarray(exponent, np.int64)
    product = np.asarray(value, np.int64) * reduced_multiplier(multiplier)
    return wrap32((product + (np.int64(1) << (shift - 1))) >> shift)


def rescale_float32_even(value: IntLike, scale: npt.ArrayLike) -> Int:
    """XNNPACK fp32 requantization: int32 to float32, times a float32 scale, ties to even; saturates."""
    product = np.asarray(value, np.int64).astype(np.float32) * np.asarray(scale, np.float32)
    return np.clip(np.rint(product).astype(np.float64), INT32_MIN, INT32_MAX).astype(np.int64)


def rescale_float64_away(value: IntLike, scale: npt.ArrayLike, saturate: bool = False) -> Int:
    """Reference FULLY_CONNECTED: float64 product, half away from zero, converted to int32."""
    product = round_away(np.asarray(value, np.int64).astype(np.float64) * np.asarray(scale))
    return float_to_int32(product, saturate)


_RESCALES: dict[Rounding, Callable[..., Int]] = {
    "double_away": multiply_by_quantized_multiplier,
    "double_up": partial(multiply_by_quantized_multiplier, rounding="double_up"),
    "exact_up": multiply_rounding_once,
    "exact_up_saturated": partial(multiply_rounding_once, saturate=True),
    "narrow_up": multiply_in_16_bits,
    "single_up": multiply_by_quantized_multiplier_64,
    "float32_even": rescale_float32_even,
    "float64_away": rescale_float64_away,
    "float64_away_saturated": partial(rescale_float64_away, saturate=True),
}


def rescale(value: IntLike, rounding: Rounding, *factors: npt.NDArray[Any]) -> Int:
    """``value`` times a real factor: (multiplier, exponent), or one float for the roundings named so."""
    return _RESCALES[rounding](value, *factors)


def exp_on_negative_values(value: IntLike, integer_bits: int = 5) -> Int:
    """gemmlowp ``exp_on_negative_values``: raw Q(integer_bits) in, raw Q0.31 out, for value <= 0."""
    a = np.asarray(value, np.int64)
    fractional = 31 - integer_bits
    quarter = 1 << (fractional - 2)
    remainder_mod = (a & (quarter - 1)) - quarter
    result = _exp_on_interval(saturate32(remainder_mod << integer_bits))
    remainder = wrap32(remainder_mod - a)
    for exponent, factor in zip(range(-2, 5), EXP_OF_MINUS_POWERS_OF_TWO, strict=True):
        if integer_bits > exponent:
            bit = (remainder >> (fractional + exponent)) & 1
            result = np.where(bit == 1, saturating_rounding_doubling_high_mul(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -(1 << (36 - integer_bits)), 0, result)
    return np.where(a == 0, INT32_MAX, result)


EXP_OF_MINUS_POWERS_OF_TWO = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def _exp_on_interval(a: Int) -> Int:
    """exp on [-1/4, 0) in Q0.31: a fourth-order polynomial around -1/8."""
    constant, one_third = 1895147668, 715827883
    high_mul = saturating_rounding_doubling_high_mul
    x = wrap32(a + (1 << 28))
    x2 = high_mul(x, x)
    x3, x4 = high_mul(x2, x), high_mul(x2, x2)
    x4_over_4 = rounding_divide_by_pot(x4, 2)
    tail = rounding_divide_by_pot(wrap32(high_mul(wrap32(x4_over_4 + x3), one_third) + x2), 1)
    return saturate32(constant + high_mul(constant, wrap32(x + tail)))


def one_over_one_plus_x(value: IntLike) -> Int:
    """gemmlowp ``one_over_one_plus_x_for_x_in_0_1``: raw Q0.31 in and out, three Newton steps."""
    half_denominator = (np.asarray(value, np.int64) + INT32_MAX + 1) >> 1
    x = wrap32(1515870810 + saturating_rounding_doubling_high_mul(half_denominator, -1010580540))
    for _ in range(3):
        error = wrap32((1 << 29) - saturating_rounding_doubling_high_mul(half_denominator, x))
        x = wrap32(x + saturate32(saturating_rounding_doubling_high_mul(x, error) << 2))
    return saturate32(x << 1)


def inverse_sqrt_multiplier(value: IntLike) -> tuple[Int, Int]:
    """TFLite ``GetInvSqrtQuantizedMultiplierExp``: (multiplier, exponent) of 1 / sqrt(value), value < 2^31.

    1 and anything below give (2^31 - 1, 0).
    """
    x = np.maximum(np.asarray(value, np.int64), 2)
    shift = np.where(x >= 2**29, 12, 11)
    x = np.where(x >= 2**29, x // 4, x)
    pairs = (count_leading_zeros32(x) - 1) // 2 - 1
    x, shift = x << (2 * pairs), shift - pairs
    half = rounding_divide_by_pot(x >> 1, 1)
    high_mul, root = saturating_rounding_doubling_high_mul, np.full_like(x, 1 << 28)
    for _ in range(5):
        cube = saturate32(high_mul(high_mul(root, root), root) << 6)
        root = saturate32((high_mul(3 << 27, root) - high_mul(half, cube)) << 3)
    root = high_mul(root, 1518500250) << np.maximum(-shift, 0)
    small = np.asarray(value) <= 1
    return np.where(small, INT32_MAX, root), np.where(small, 0, -np.maximum(shift, 0))


def count_leading_zeros32(value: IntLike) -> Int:
    """Leading zero bits of values in 0..2^32-1."""
    x = np.asarray(value, np.int64)
    return (32 - np.frexp(x.astype(np.float64))[1]).astype(np.int64)


def activation_range(activation: str, scale: float, zero_point: int, dtype: str) -> tuple[int, int]:
    """Clip bounds of a fused activation in output codes: classic kernels, float32, half away from zero.

    ``activation`` is NONE, RELU, RELU6, RELU_N1_TO_1 or RELU_0_TO_1.
    """
    lowest, highest = _RANGES[dtype]
    low, high = _ACTIVATION_BOUNDS[activation]

    def quantize(bound: float) -> int:
        return zero_point + int(round_away(np.float32(bound) / np.float32(scale)))

    return (
        lowest if low is None else max(lowest, quantize(low)),
        highest if high is None else min(highest, quantize(high)),
    )


def activation_range_xnnpack(activation: str, scale: float, zero_point: int, dtype: str) -> tuple[int, int]:
    """Clip bounds as XNNPACK forms them: the zero point is added before rounding half to even."""
    lowest, highest = _RANGES[dtype]
    low, high = _ACTIVATION_BOUNDS[activation]

    def quantize(bound: float) -> int:
        code = np.float32(np.float32(bound) / np.float32(scale)) + np.float32(zero_point)
        return int(np.rint(np.clip(np.float32(code), np.float32(lowest), np.float32(highest))))

    return lowest if low is None else quantize(low), highest if high is None else quantize(high)


_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}

_ACTIVATION_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def logistic_int16(value: IntLike) -> Int:
    """gemmlowp ``logistic`` on 16 bits: raw Q3.12 in, raw Q0.15 out."""
    x = np.asarray(value, np.int64)
    tail = _saturating_shift16(_half_over_one_plus16(_exp_on_negative16(wrap16(-np.abs(x)), 3)), 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, tail, INT16_MAX - tail))


def tanh_int16(value: IntLike, integer_bits: int) -> Int:
    """gemmlowp ``tanh`` on 16 bits: raw Q(integer_bits) in, raw Q0.15 out; integer_bits from 0 to 6."""
    x = np.asarray(value, np.int64)
    reciprocal = _half_over_one_plus16(_exp_on_negative16(wrap16(-np.abs(x)), integer_bits + 1))
    tail = _saturating_shift16(wrap16(reciprocal - (1 << 13)), 2)
    return np.where(x == 0, 0, np.where(x < 0, wrap16(-tail), tail))


INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1


def _high_mul16(a: IntLike, b: IntLike) -> Int:
    """gemmlowp ``SaturatingRoundingDoublingHighMul`` of int16."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.asarray(np.minimum((product + 2**14) >> 15, INT16_MAX), np.int64)


def _saturating_shift16(value: Int, bits: int) -> Int:
    return np.asarray(np.clip(value << bits, INT16_MIN, INT16_MAX), np.int64)


def _exp_on_negative16(a: Int, integer_bits: int) -> Int:
    """``exp_on_negative_values`` on 16 bits: the 32-bit constants, rounded half up to their upper half."""
    fractional = 15 - integer_bits
    quarter = 1 << (fractional - 2)
    remainder_mod = (a & (quarter - 1)) - quarter
    result = _exp_on_interval16(_saturating_shift16(remainder_mod, integer_bits))
    remainder = wrap16(remainder_mod - a)
    for exponent, factor in zip(range(-2, 5), EXP_OF_MINUS_POWERS_OF_TWO, strict=True):
        if integer_bits > exponent:
            bit = (remainder >> (fractional + exponent)) & 1
            result = np.where(bit == 1, _high_mul16(result, (factor + 2**15) >> 16), result)
    if integer_bits > 5:
        result = np.where(a < -(1 << (20 - integer_bits)), 0, result)
    return np.where(a == 0, INT16_MAX, result)


def _exp_on_interval16(a: Int) -> Int:
    """``_exp_on_interval`` in Q0.15."""
    constant, one_third = 28918, 10923
    x = wrap16(a + (1 << 12))
    x2 = _high_mul16(x, x)
    x3, x4 = _high_mul16(x2, x), _high_mul16(x2, x2)
    x4_over_4 = rounding_divide_by_pot(x4, 2)
    tail = rounding_divide_by_pot(wrap16(_high_mul16(wrap16(x4_over_4 + x3), one_third) + x2), 1)
    return np.clip(constant + _high_mul16(constant, wrap16(x + tail)), INT16_MIN, INT16_MAX)


def _half_over_one_plus16(a: Int) -> Int:
    """1 / (1 + a) for raw Q0.15 a in [0, 1), in Q2.13: the Newton steps of ``one_over_one_plus_x``."""
    half_denominator = (a + INT16_MAX + 1) >> 1
    x = wrap16(23130 + _high_mul16(half_denominator, -15420))
    for _ in range(3):
        error = wrap16((1 << 13) - _high_mul16(half_denominator, x))
        x = wrap16(x + _saturating_shift16(_high_mul16(x, error), 2))
    return x


def layer_norm_int16(value: IntLike, weights: Int, bias: Int, factor: tuple[int, int], guard: int) -> Int:
    """TFLite ``PortableApplyLayerNorm`` over the last axis; ``guard`` replaces a variance below 1.

    ``factor`` is the (multiplier, exponent) of the weights' scale.
    """
    a = np.asarray(value, np.int64)
    count = a.shape[-1]
    mean = _divide(a.sum(-1, keepdims=True) * 1024, count)
    squares = (a * a).sum(-1, keepdims=True)
    variance = wrap32(_divide(squares * (2**20 // count) - mean * mean, 2**20))
    inverse = inverse_sqrt_multiplier(np.where(variance < 1, guard, variance))
    rescaled = multiply_by_quantized_multiplier(wrap32(1024 * a - mean), *inverse)
    weighted = wrap32(rescaled * weights + bias)
    rounded = _divide(weighted + np.where(weighted > 0, 512, -512), 1024)
    result = multiply_by_quantized_multiplier(rounded, factor[0], factor[1] + 12)
    return np.clip(result, INT16_MIN, INT16_MAX)


def _divide(value: Int, divisor: int) -> Int:
    """C division: towards zero."""
    return np.asarray(np.sign(value) * (np.abs(value) // divisor), np.int64)
