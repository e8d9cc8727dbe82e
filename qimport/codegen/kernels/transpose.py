"""Copies whose source runs along another dimension than the result: blocks, transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qimport.codegen.function import Index, KernelFunction
from qimport.codegen.kernels import access
from qimport.codegen.vector import shuffle, vector_type
from qimport.lower.kernel import Strides

VECTOR_BYTES = 16
"""Every target interleaves vectors of this size in one instruction."""


def run_of_source(to: Strides, own: Strides) -> int | None:
    """The dimension along which the source is contiguous, if the result is so along the last one."""
    if to[-1] != 1 or own[-1] in (0, 1):
        return None
    return own.index(1) if 1 in own else None


class BlockCopy:
    """A copy of a box in blocks; ``to`` and ``own`` are strides of result and source in elements."""

    def __init__(self, fn: KernelFunction, itemsize: int, sizes: Sequence[int], to: Strides, own: Strides):
        self.fn = fn
        self.itemsize = itemsize
        self.element = ir.IntType(8 * itemsize)
        self.sizes = sizes
        self.to = to
        self.own = own

    def emit(self, axis: int, target: Any, source: Any) -> None:
        """Loops over all but two dimensions, and over blocks of ``axis`` and the last one."""
        lanes = max(VECTOR_BYTES // self.itemsize, 2)
        outer = [number for number in range(len(self.sizes) - 1) if number != axis]

        def box(position: list[Index]) -> None:
            place = access.offset(self.fn, position, tuple(self.to[k] for k in outer))
            origin = access.offset(self.fn, position, tuple(self.own[k] for k in outer))

            def columns(first: Index, width: int) -> None:
                def rows(start: Index, height: int) -> None:
                    self._block(
                        self._at(target, self._sum(place, first, self.to[axis], start, 1)),
                        self._at(source, self._sum(origin, first, 1, start, self.own[-1])),
                        (height, width),
                        self.to[axis],
                    )

                self.fn.blocks(self.sizes[-1], lanes, True, rows)

            self.fn.blocks(self.sizes[axis], lanes, True, columns)

        access.nest(self.fn, [self.sizes[k] for k in outer], box)

    def _sum(self, base: Index, first: Index, step: int, start: Index, stride: int) -> Index:
        return self.fn.add(base, self.fn.add(self.fn.mul(first, step), self.fn.mul(start, stride)))

    def _at(self, pointer: Any, position: Index) -> Any:
        return self.fn.at(pointer, self.fn.mul(position, self.itemsize))

    def _block(self, target: Any, source: Any, shape: tuple[int, int], row_stride: int) -> None:
        """``height`` runs of ``width`` source elements become ``width`` runs of ``height`` elements."""
        height, width = shape
        type_ = vector_type(self.element, width)
        vectors = [self.fn.load(self._at(source, number * self.own[-1]), type_) for number in range(height)]
        transposed = self._transposed(vectors, width)
        if row_stride == height:
            for number, vector in enumerate(transposed):
                self.fn.store(vector, self._at(target, number * width))
            return
        for number, vector in enumerate(self._rows(transposed, width, height)):
            self.fn.store(vector, self._at(target, number * row_stride))

    def _transposed(self, vectors: list[Any], width: int) -> list[Any]:
        """Interleave the two halves as often as halves can be halved: each time, index bits rotate by one."""
        low = [
            lane for pair in zip(range(width // 2), range(width, 2 * width), strict=False) for lane in pair
        ]
        high = [lane + width // 2 for lane in low]
        for _ in range(len(vectors).bit_length() - 1):
            half = len(vectors) // 2
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [shuffle(self.fn, a, b, lanes) for a, b in pairs for lanes in (low, high)]
        return vectors

    def _rows(self, vectors: list[Any], width: int, height: int) -> list[Any]:
        """Vectors of ``width`` lanes cut or joined into ``width`` vectors of ``height`` lanes."""
        while width > height:
            halves = (range(width // 2), range(width // 2, width))
            vectors = [shuffle(self.fn, vector, vector, half) for vector in vectors for half in halves]
            width //= 2
        while width < height:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [shuffle(self.fn, a, b, range(2 * width)) for a, b in pairs]
            width *= 2
        return vectors
