"""Where models come from: files, streams and what only looks like one of them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from conftest import ROOT

from qimport.errors import ArgumentError
from qimport.frontend.model import HEAD_BYTES
from qimport.source import read_content, read_source

DIGITS = ROOT / "models" / "digits_int8_ptq.tflite"


class OfUnknownSize(io.BytesIO):
    """A file that the system shows with no bytes, as some file systems do."""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """The end seems to be where the file begins."""
        return super().seek(offset, os.SEEK_SET if whence == os.SEEK_END else whence)


class Stream(io.BytesIO):
    """As from a pipe."""

    def seekable(self) -> bool:
        """There is no way back."""
        return False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Refused, as the system would."""
        raise OSError("Illegal seek")


@pytest.mark.parametrize("kind", [io.BytesIO, OfUnknownSize, Stream])
def test_all_of_a_model_is_read(kind: type[io.BytesIO]) -> None:
    wanted = DIGITS.read_bytes()
    assert bytes(read_content(kind(wanted))) == wanted


@pytest.mark.parametrize("kind", [io.BytesIO, OfUnknownSize, Stream])
@pytest.mark.parametrize("size", [0, 3, HEAD_BYTES, 100_000])
def test_only_the_head_of_anything_else_is_read(kind: type[io.BytesIO], size: int) -> None:
    assert read_content(kind(b"\1" * size)) == b"\1" * min(size, HEAD_BYTES)


def test_files_are_read_with_their_path(tmp_path: Path) -> None:
    path = tmp_path / "a model.tflite"
    path.write_bytes(DIGITS.read_bytes())
    content, source = read_source(path)
    path.unlink()
    assert (bytes(content), source) == (DIGITS.read_bytes(), str(path))


def test_content_is_that_of_the_moment_when_it_was_given() -> None:
    given = bytearray(DIGITS.read_bytes())
    content, source = read_source(given)
    given[:] = bytes(len(given))
    assert (content, source) == (DIGITS.read_bytes(), "")


@pytest.mark.parametrize("path", ["no/such.tflite", "with\0zero", "."])
def test_files_that_cannot_be_read_are_named(path: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_source(path)
    assert str(caught.value).startswith(f"cannot read {path!r}: ")
