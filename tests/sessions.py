"""Successive invocations of a compiled model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qimport.ir.graph import Array
from qimport.model import Session


def run_sequence(session: Session, sequence: Sequence[Sequence[Array]]) -> Iterator[list[Array]]:
    """The outputs of each invocation; what the model remembers carries over."""
    for inputs in sequence:
        for place, array in zip(session.inputs, inputs, strict=True):
            place[...] = array
        session.run()
        yield [array.copy() for array in session.outputs]
