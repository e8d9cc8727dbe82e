"""Sections of packed constants, and how generated code reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qimport.codegen.function import ELEMENTS, Index, KernelFunction, itemsize
from qimport.codegen.vector import repeated, splat, vector_type


@dataclass(frozen=True)
class Section:
    """``count`` elements (before padding) at byte ``offset`` of the blob."""

    offset: int
    dtype: str
    count: int


def load_section(fn: KernelFunction, section: Section, channel: Index, lanes: int, repeat: int = 1) -> Any:
    """A section of the tables in ``lanes``: its only element, or ``repeat`` times channels from one on."""
    base, element = fn.at(fn.tables, section.offset), ELEMENTS[section.dtype]
    align = itemsize(section.dtype)
    if section.count == 1:
        return splat(fn, fn.load(base, element, align), lanes)
    place = fn.element(base, channel, section.dtype)
    return repeated(fn, fn.load(place, vector_type(element, lanes // repeat), align), repeat)
