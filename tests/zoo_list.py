"""What is special about files of the model zoo; whatever is not listed must be exact."""

from __future__ import annotations

REFUSED: dict[str, str] = {
    "BADINPUT_litert__empty_model": "has no outputs",
    "BADINPUT_litert__string_input_model": "the element type string is not supported",
}
"""Files that the interpreter runs and qimport refuses, and what the refusal says."""

UNTRUSTED = {
    "tflm__keyword_scrambled_8bit": "the interpreter writes beyond its 8-bit SVDF state",
}
"""Files whose outputs in the interpreter cannot be trusted, and why."""

BOUNDED: dict[str, int] = {}
"""Files with float outputs that may differ, and by how many units in the last place."""

LARGE: frozenset[str] = frozenset()
"""Files that take the interpreter's reference kernels more than some seconds."""
