"""A tile's activations copied to the stack in the form that dot products take.

Activations of the other signedness are moved by 128 (an exclusive or of the highest bit), bytes may become
words, and what is read beyond the end of a run is memory of the copy. The inner loop then broadcasts four
bytes at a time straight from memory.
"""

from __future__ import annotations

from typing import Any

from qimport.codegen.function import ELEMENTS, I16, KernelFunction
from qimport.codegen.kernels import mac
from qimport.codegen.vector import like, retyped, vector_type

SPARE = 4
"""Elements behind a row of a panel that may be read with it."""


class Panel:
    """Copies of the input elements that a tile of up to ``pixels`` neighbouring pixels reads.

    One row of :func:`row_elements`, in the order of the input, for every row of runs, ``row_step`` elements
    after the previous one.
    """

    def __init__(
        self, fn: KernelFunction, geo: mac.Geometry, dtype: str, flip: int, widened: bool, pixels: int
    ):
        self.fn = fn
        self.geo = geo
        self.dtype = dtype
        self.flip = flip
        self.widened = widened
        self.row_step = row_elements(geo, pixels) + SPARE
        self.memory = mac.tile_memory(fn, geo.run_rows * self.row_step, "int16" if widened else dtype)

    def fill(self, x: Any, pixels: int) -> None:
        """Copy for ``pixels`` pixels, the first of which starts at ``x``."""

        def row(number: Any) -> None:
            source = self.fn.element(x, self.fn.mul(number, self.geo.run_row_step), self.dtype)
            self.copy(source, self.fn.mul(number, self.row_step), row_elements(self.geo, pixels))

        self.fn.loop(0, self.geo.run_rows, 1, row)

    def copy(self, source: Any, start: Any, count: int) -> None:
        """Copy ``count`` elements to element ``start`` of the panel."""
        copied = "int16" if self.widened else self.dtype
        lanes = 2 * self.fn.target.vector_bytes // ELEMENTS[copied].width * 8

        def block(first: Any, count: int) -> None:
            loaded = self.fn.element(source, first, self.dtype)
            value = self.fn.load(loaded, vector_type(ELEMENTS[self.dtype], count))
            if self.flip:
                value = self.fn.b.xor(value, like(value, self.flip))
            if self.widened:
                value = self.fn.b.zext(value, retyped(value, I16))
            place = self.fn.element(self.memory, self.fn.add(start, first), copied)
            self.fn.store(value, place)

        self.fn.blocks(count, lanes, True, block)


def row_elements(geo: mac.Geometry, pixels: int) -> int:
    """Elements from the first one of the first pixel to the last one of the last pixel in a row of runs."""
    return (pixels - 1) * geo.pixel_step + (geo.run_columns - 1) * geo.run_column_step + geo.run_length
