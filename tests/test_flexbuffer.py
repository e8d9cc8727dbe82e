"""Flexbuffer maps: what the published builder writes is read, what is damaged is refused in words."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from qimport.errors import ModelError
from qimport.frontend.flexbuffer import read_map
from tests.one_operator.detection import options_of

OPTIONS = {
    "count": 10,
    "negative": -300,
    "large": 1 << 40,
    "threshold": 0.625,
    "flag": True,
    "off": False,
}


def test_reads_what_the_builder_writes() -> None:
    assert read_map(options_of(**OPTIONS), "case") == OPTIONS


@pytest.mark.parametrize("data", [b"", b"\x01\x04", b"\x05\x04\x01", b"\x01\x24\x03", bytes(40)])
def test_refuses_what_is_no_map(data: bytes) -> None:
    with pytest.raises(ModelError, match="case: "):
        read_map(data, "case")


def test_damaged_bytes_are_refused_or_read() -> None:
    """Every byte replaced, and every truncation: a map or a ModelError, nothing else."""
    rng, whole = np.random.default_rng(0), options_of(**OPTIONS)
    for position in range(len(whole)):
        damaged = bytearray(whole)
        for value in rng.integers(0, 256, 8):
            damaged[position] = int(value)
            with suppress(ModelError):
                read_map(bytes(damaged), "case")
        with suppress(ModelError):
            read_map(whole[:position], "case")
