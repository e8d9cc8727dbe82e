"""The normative arithmetic against exact rationals and the published integer definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qimport import fixedpoint as fp

HALF = Fraction(1, 2)
int32s = st.integers(fp.INT32_MIN, fp.INT32_MAX)
multipliers = st.integers(2**30, 2**31 - 1)
exponents = st.integers(-31, 8)


def away(value: Fraction) -> int:
    """Nearest integer, ties away from zero."""
    return math.floor(value + HALF) if value >= 0 else -math.floor(HALF - value)


def up(value: Fraction) -> int:
    """Nearest integer, ties towards plus infinity."""
    return math.floor(value + HALF)


def wrapped(value: int) -> int:
    """Modulo 2^32 into int32."""
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.5, 1),
        (-0.5, -1),
        (1.5, 2),
        (2.5, 3),
        (-2.5, -3),
        (0.49999997, 0),
        (0.49999999999999994, 0),
        (-0.0, 0),
    ],
)
def test_round_away(value: float, wanted: float) -> None:
    assert fp.round_away(value) == wanted
    assert fp.round_away(np.float32(value)).dtype == np.float32


def test_round_away_keeps_large_values() -> None:
    large = np.array([8388609.0, -16777215.0, 3e38], np.float32)
    assert (fp.round_away(large) == large).all()


def test_float_to_int32_outside_the_range() -> None:
    values = [np.nan, np.inf, -np.inf, 2.0**31, 2.0**31 - 1, -(2.0**31), -3e9]
    low, high = fp.INT32_MIN, fp.INT32_MAX
    assert fp.float_to_int32(values).tolist() == [low, low, low, low, high, low, low]


@given(st.integers(-(2**62), 2**62))
def test_wrap_and_saturate(value: int) -> None:
    assert fp.wrap32(value) == wrapped(value)
    assert fp.wrap16(value) == (value + 2**15) % 2**16 - 2**15
    assert fp.saturate32(value) == min(max(value, fp.INT32_MIN), fp.INT32_MAX)


@given(st.floats(2.0**-31, 2.0**30))
def test_quantize_multiplier_is_nearest(scale: float) -> None:
    multiplier, exponent = fp.quantize_multiplier(scale)
    assert 2**30 <= multiplier < 2**31
    step = Fraction(2) ** (exponent - 31)
    assert abs(multiplier * step - Fraction(scale)) <= step / 2


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [
        (0.0, (0, 0)),
        (1.0, (2**30, 1)),
        (0.5, (2**30, 0)),
        (2.0**-32, (2**30, -31)),
        (2.0**-33, (0, 0)),
        (1 - 2.0**-40, (2**30, 1)),
        (2.0**40, (2**30, 41)),
        (0.75, (3 * 2**29, 0)),
    ],
)
def test_quantize_multiplier_at_the_ends(scale: float, wanted: tuple[int, int]) -> None:
    """C25: nothing, one, the flush below 2^-32, and a fraction that rounds up to one."""
    assert fp.quantize_multiplier(scale) == wanted


@given(int32s, int32s)
def test_high_mul_equals_the_published_form(a: int, b: int) -> None:
    """gemmlowp nudges and truncates, which is rounding half up; only INT32_MIN squared saturates."""
    nudge = 2**30 if a * b >= 0 else 1 - 2**30
    published = int(Fraction(a * b + nudge, 2**31))
    wanted = fp.INT32_MAX if a == b == fp.INT32_MIN else published
    assert fp.saturating_rounding_doubling_high_mul(a, b) == wanted


def test_high_mul_saturates() -> None:
    assert fp.saturating_rounding_doubling_high_mul(fp.INT32_MIN, fp.INT32_MIN) == fp.INT32_MAX


@given(int32s, st.integers(0, 31))
def test_right_shifts(value: int, exponent: int) -> None:
    exact = Fraction(value, 2**exponent)
    assert fp.rounding_divide_by_pot(value, exponent) == away(exact)
    assert fp.rounding_shift_right_up(value, exponent) == up(exact)


@given(int32s, multipliers, exponents)
def test_multiply_by_quantized_multiplier(value: int, multiplier: int, exponent: int) -> None:
    """Two roundings: half up after the product, then away or up after the shift."""
    shifted = wrapped(value << max(exponent, 0))
    high = Fraction(up(Fraction(shifted * multiplier, 2**31)), 2 ** max(-exponent, 0))
    multiply = fp.multiply_by_quantized_multiplier
    assert multiply(value, multiplier, exponent) == away(high)
    assert multiply(value, multiplier, exponent, "double_up") == up(high)


def test_two_roundings_are_not_one() -> None:
    """C01: 11.4991 becomes 11.5 in the first rounding, 12 in the second."""
    assert fp.multiply_by_quantized_multiplier(7984, 1583594044, -9) == 12
    assert round(7984 * 1583594044 / 2**40) == 11


def test_modes_part_at_negative_ties() -> None:
    """C02: -6/4 is -2 or -1; 6/4 is 2 in both."""
    multiply = fp.multiply_by_quantized_multiplier
    values = np.array([-6, 6])
    assert multiply(values, 2**30, -1).tolist() == [-2, 2]
    assert multiply(values, 2**30, -1, "double_up").tolist() == [-1, 2]


@given(int32s, multipliers, exponents)
def test_multiply_rounding_once(value: int, multiplier: int, exponent: int) -> None:
    """The exact product rounded half up, if only the left shift leaves the value alone."""
    shifted = value << max(exponent + 1, 0)
    exact = up(Fraction(value * multiplier) * Fraction(2) ** (exponent - 31))
    if wrapped(shifted) == shifted:
        assert fp.multiply_rounding_once(value, multiplier, exponent) == exact
        assert fp.multiply_rounding_once(value, multiplier, exponent, saturate=True) == exact
    elif exponent >= 0:
        assert fp.multiply_rounding_once(value, multiplier, exponent) == up(
            Fraction(wrapped(shifted) * multiplier, 2**32)
        )
        bound = fp.INT32_MAX if value > 0 else fp.INT32_MIN
        saturated = up(Fraction(bound * multiplier, 2**32))
        assert fp.multiply_rounding_once(value, multiplier, exponent, saturate=True) == saturated


@given(int32s, st.floats(2.0**-31, 255.0, width=32))
def test_multiply_in_16_bits(value: int, scale: float) -> None:
    """First to int16, then times 16 bits, both half up and within int16."""
    multiplier, exponent = fp.narrow_multiplier(scale)
    assert 2**14 <= multiplier < 2**15
    assert abs(multiplier * 2.0 ** (exponent - 15) / scale - 1) <= 2.0**-14
    narrow = min(max(up(Fraction(value) * Fraction(2) ** exponent), -(2**15)), 2**15 - 1)
    assert fp.multiply_in_16_bits(value, multiplier, exponent) == up(Fraction(narrow * multiplier, 2**15))


def test_a_float_rounding_has_no_multiplier() -> None:
    with pytest.raises(ValueError, match="float32_even"):
        fp.multiply_by_quantized_multiplier(1, 2**30, 0, "float32_even")


@given(int32s, st.floats(2.0**-40, 300.0, width=32))
def test_rescale_float32_even(value: int, scale: float) -> None:
    """The value, then the product, are rounded to float32; the result to even; int32 saturates."""
    product = Fraction(float(np.float32(value))) * Fraction(scale)
    rounded = round(Fraction(float(np.float32(float(product)))))
    assert fp.rescale_float32_even(value, scale) == min(max(rounded, fp.INT32_MIN), fp.INT32_MAX)


@given(int32s, st.floats(2.0**-40, 300.0))
def test_rescale_float64_away(value: int, scale: float) -> None:
    rounded = away(Fraction(float(value) * scale))
    inside = fp.INT32_MIN <= rounded <= fp.INT32_MAX
    assert fp.rescale_float64_away(value, scale) == (rounded if inside else fp.INT32_MIN)
    saturated = min(max(rounded, fp.INT32_MIN), fp.INT32_MAX)
    assert fp.rescale_float64_away(value, scale, saturate=True) == saturated


@given(st.integers(0, fp.INT32_MAX))
def test_count_leading_zeros(value: int) -> None:
    assert fp.count_leading_zeros32(value) == 32 - value.bit_length()


@pytest.mark.parametrize("integer_bits", [1, 4, 5, 6])
def test_exponential_is_accurate(integer_bits: int) -> None:
    """Within the first term the polynomial around -1/8 leaves out; exactly the largest value at zero."""
    raw = -np.linspace(0, 2**31 - 1, 4001).astype(np.int64)
    found = fp.exp_on_negative_values(raw, integer_bits) / 2.0**31
    assert np.abs(found - np.exp(raw / 2.0 ** (31 - integer_bits))).max() < 0.125**5 / math.factorial(5)
    assert fp.exp_on_negative_values(0, integer_bits) == fp.INT32_MAX


def test_reciprocal_is_accurate() -> None:
    """Within 2^-28 of 1 / (1 + x)."""
    raw = np.linspace(0, 2**31 - 1, 4001).astype(np.int64)
    found = fp.one_over_one_plus_x(raw) / 2.0**31
    assert np.abs(found - 1 / (1 + raw / 2.0**31)).max() < 2.0**-28


@pytest.mark.parametrize(
    ("activation", "scale", "zero_point", "dtype", "classic", "xnnpack"),
    [
        ("NONE", 0.1, 0, "int8", (-128, 127), (-128, 127)),
        ("RELU", 0.1, -5, "int8", (-5, 127), (-5, 127)),
        ("RELU", 0.1, 255, "uint8", (255, 255), (255, 255)),
        ("RELU6", 0.1, -128, "int8", (-128, -68), (-128, -68)),
        ("RELU6", 2.4, -128, "int8", (-128, -125), (-128, -126)),
        ("RELU6", 0.01, 0, "uint8", (0, 255), (0, 255)),
        ("RELU6", 1000.0, 3, "int8", (3, 3), (3, 3)),
        ("RELU_N1_TO_1", 2.0, 0, "int8", (-1, 1), (0, 0)),
        ("RELU_N1_TO_1", 0.1, -125, "int8", (-128, -115), (-128, -115)),
        ("RELU_0_TO_1", 0.25, 10, "uint8", (10, 14), (10, 14)),
    ],
)
def test_activation_ranges(
    activation: str,
    scale: float,
    zero_point: int,
    dtype: str,
    classic: tuple[int, int],
    xnnpack: tuple[int, int],
) -> None:
    assert fp.activation_range(activation, scale, zero_point, dtype) == classic
    assert fp.activation_range_xnnpack(activation, scale, zero_point, dtype) == xnnpack


def test_sixteen_bit_multiplier_of_64_bit_sums() -> None:
    """One rounding, half up, of a multiplier reduced to 16 bits; the largest is cut off."""
    multiplier, exponent = fp.quantize_multiplier(0.00097656)
    assert fp.multiply_by_quantized_multiplier_64(10000, multiplier, exponent) == 10
    assert fp.reduced_multiplier([2**30, 0x7FFEFFFF, 0x7FFF0000, 2**31 - 1]).tolist() == [
        16384, 32767, 32767, 32767,
    ]  # fmt: skip
    ties = fp.multiply_by_quantized_multiplier_64([-3, -1, 1, 3], 2**30, 0)
    assert ties.tolist() == [-1, 0, 1, 2]
    assert fp.multiply_by_quantized_multiplier_64(2**40 + 8, 2**30, 1) == 8
