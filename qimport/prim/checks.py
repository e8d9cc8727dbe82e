"""Constraints on the attributes of sliding windows, worded once."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.ir.check import require


def require_steps(label: str, what: str, steps: Sequence[int]) -> None:
    """``steps`` are two positive numbers: one for the height, one for the width."""
    require(len(steps) == 2 and min(steps) > 0, label, f"{what} {steps} is not two positive numbers")


def require_padding(label: str, padding: Sequence[Sequence[int]]) -> None:
    """``padding`` is ((top, bottom), (left, right)), nothing negative."""
    pairs = len(padding) == 2 and all(len(pair) == 2 and min(pair) >= 0 for pair in padding)
    require(pairs, label, f"padding {padding} is not two pairs of counts")
