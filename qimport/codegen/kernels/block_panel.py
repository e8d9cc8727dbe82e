"""A few tiles of pixels copied to the stack, in the order in which products of blocks read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from qimport.codegen.function import I8, I32, Index, KernelFunction, index
from qimport.codegen.isa.blocks import CHANNELS, REGISTER_BYTES, BlockProduct
from qimport.codegen.kernels import access, mac
from qimport.codegen.vector import (
    concatenated,
    constant,
    horizontal,
    like,
    retyped,
    shuffle,
    splat,
    vector_type,
)

UNROLLED = 4
"""Registers that are copied without a loop."""

Position = Sequence[Any]
"""Offset of a pixel in the input, its column, and its row in the image."""


class BlockPanel:
    """Tiles of up to ``pixels`` output pixels: for each [unit][pixel][bytes], all runs one after another.

    ``flip``: an exclusive or of all bytes. With ``zero`` the panel also knows what every pixel owes to a
    zero point of the weights: ``- zero * sum of activations``. The rest of the last unit is zero.
    """

    def __init__(
        self,
        fn: KernelFunction,
        x: Any,
        geometry: mac.Geometry,
        block: BlockProduct,
        pixels: int,
        tiles: int,
        flip: int,
        zero: int,
    ) -> None:
        self.fn, self.x, self.geo, self.block = fn, x, geometry, block
        self.pixels, self.flip, self.zero = pixels, flip, zero
        self.length = geometry.runs * geometry.run_length
        self.tile_bytes = tile_bytes(self.length, block, pixels)
        self.memory = mac.tile_memory(fn, tiles * self.tile_bytes, "int8")
        self.owed = mac.tile_memory(fn, tiles * pixels) if zero else None
        self.row = mac.tile_memory(fn, self.length, "int8") if gathers(geometry, block) else None

    def start(self) -> list[Any]:
        """The position of the first pixel."""
        return [index(0)] * (3 if self.geo.images * self.geo.rows > 1 else 1)

    def fill(self, tiles: Index, pixels: int, position: Position) -> list[Any]:
        """Copy ``tiles`` tiles, of ``pixels`` pixels each, from a position on; gives the one behind them."""
        fn = self.fn
        unit_bytes = block_pixels(self.block, pixels) * self.block.unit

        def tile(number: Index, *position: Any) -> Sequence[Any]:
            memory = fn.at(self.memory, fn.mul(number, self.tile_bytes))

            def pixel(place: Index, *position: Any) -> Sequence[Any]:
                total = self._pixel(fn.at(memory, fn.mul(place, self.block.unit)), position[0], unit_bytes)
                if self.owed is not None:
                    slot = fn.add(fn.mul(number, self.pixels), place)
                    fn.store(fn.b.mul(total, I32(-self.zero)), fn.element(self.owed, slot, "int32"), 4)
                return self._following(position)

            return fn.loop(0, pixels, 1, pixel, position)

        return list(fn.loop(0, tiles, 1, tile, position))

    def owed_by(self, tile: Index, pixel: int, pixels: int) -> Any:
        """What the pixels of a register of sums owe, in its lanes; a missing pixel is its predecessor."""
        fn, sharing = self.fn, self.block.tile_pixels
        amounts = []
        for number in range(pixel, pixel + sharing):
            slot = fn.add(fn.mul(tile, self.pixels), min(number, pixels - 1))
            amounts.append(fn.load(fn.element(self.owed, slot, "int32"), I32, 4))
        return concatenated(fn, [splat(fn, amount, CHANNELS // sharing) for amount in amounts])

    def _following(self, position: Position) -> list[Any]:
        """The position of the next pixel."""
        fn, geo = self.fn, self.geo
        offset = fn.add(position[0], geo.pixel_step)
        if len(position) == 1:
            return [offset]
        column, over = self._next(position[1], geo.width)
        offset = self._add_if(over, offset, geo.row_step - geo.width * geo.pixel_step)
        row = position[2]
        if geo.images > 1:
            following, last = self._next(row, geo.rows)
            offset = self._add_if(fn.b.and_(over, last), offset, geo.image_step - geo.rows * geo.row_step)
            row = fn.b.select(over, following, row)
        return [offset, column, row]

    def _next(self, place: Any, count: int) -> tuple[Any, Any]:
        """The place after ``place``, and whether it is the first again."""
        following = self.fn.b.add(place, index(1))
        over = self.fn.b.icmp_unsigned("==", following, index(count))
        return self.fn.b.select(over, index(0), following), over

    def _add_if(self, condition: Any, offset: Any, step: int) -> Any:
        return self.fn.b.select(condition, self.fn.add(offset, step), offset)

    def _pixel(self, target: Any, offset: Any, unit_bytes: int) -> Any:
        """Copy one pixel, units ``unit_bytes`` apart; gives the sum of its activations if it is needed."""
        fn, geo = self.fn, self.geo
        source = fn.at(self.x, offset)
        if self.row is not None:
            self._gather(source)
            return self._run(target, self.row, self.length, I32(0), unit_bytes)
        run_bytes = geo.run_length // self.block.unit * unit_bytes

        def run(row: Index, column: Index, total: Any) -> list[Any]:
            place = fn.add(fn.mul(row, geo.run_row_step), fn.mul(column, geo.run_column_step))
            number = fn.add(fn.mul(row, geo.run_columns), column)
            here = fn.at(target, fn.mul(number, run_bytes))
            return [self._run(here, fn.at(source, place), geo.run_length, total, unit_bytes)]

        def columns(row: Index, total: Any) -> Any:
            return fn.loop(0, geo.run_columns, 1, lambda column, t: run(row, column, t), [total])

        return fn.loop(0, geo.run_rows, 1, columns, [I32(0)])[0]

    def _gather(self, source: Any) -> None:
        """All runs of a pixel side by side in :attr:`row`."""
        fn, geo = self.fn, self.geo

        def run(place: list[Index]) -> None:
            offset = fn.add(fn.mul(place[0], geo.run_row_step), fn.mul(place[1], geo.run_column_step))
            number = fn.add(fn.mul(place[0], geo.run_columns), place[1])
            target, here = fn.at(self.row, fn.mul(number, geo.run_length)), fn.at(source, offset)

            def piece(start: Index, width: int) -> None:
                fn.store(fn.load(fn.at(here, start), vector_type(I8, width)), fn.at(target, start))

            fn.blocks(geo.run_length, REGISTER_BYTES, True, piece)

        if geo.runs <= UNROLLED:
            for number in range(geo.runs):
                run(list(divmod(number, geo.run_columns)))
        else:
            access.nest(fn, (geo.run_rows, geo.run_columns), run)

    def _run(self, target: Any, source: Any, length: int, total: Any, unit_bytes: int) -> Any:
        """Copy ``length`` bytes that lie side by side, the last unit filled up with zeros."""
        fn, step = self.fn, REGISTER_BYTES // self.block.unit * unit_bytes

        def register(number: Index, total: Any) -> list[Any]:
            value = self._flipped(fn.load(fn.at(source, fn.mul(number, REGISTER_BYTES)), vector_type(I8, 16)))
            return [
                self._store(value, fn.at(target, fn.mul(number, step)), REGISTER_BYTES, total, unit_bytes)
            ]

        def several(number: Index, total: Any) -> list[Any]:
            for following in range(UNROLLED):
                (total,) = register(fn.add(fn.mul(number, UNROLLED), following), total)
            return [total]

        whole = length // REGISTER_BYTES
        rounds = whole // UNROLLED
        (total,) = fn.loop(0, rounds, 1, several, [total])
        for number in range(rounds * UNROLLED, whole):
            (total,) = register(number, total)
        if rest := length % REGISTER_BYTES:
            value = self._rest(source, length, rest)
            total = self._store(value, fn.at(target, whole * step), rest, total, unit_bytes)
        return total

    def _rest(self, source: Any, length: int, count: int) -> Any:
        """The last ``count`` of ``length`` bytes, then zeros. What is read beside them is before them."""
        fn, type_ = self.fn, vector_type(I8, REGISTER_BYTES)
        zeros = constant(type_, 0)
        if length >= REGISTER_BYTES:
            value = self._flipped(fn.load(fn.at(source, length - REGISTER_BYTES), type_))
            return shuffle(fn, value, zeros, range(REGISTER_BYTES - count, 2 * REGISTER_BYTES - count))
        result = zeros
        for start, width in _powers(count):
            part = self._flipped(fn.load(fn.at(source, start), vector_type(I8, width)))
            wide = (
                shuffle(fn, part, part, [*range(width), *[0] * (REGISTER_BYTES - width)])
                if width > 1
                else part
            )
            lanes = list(range(REGISTER_BYTES))
            if width == 1:
                result = fn.b.insert_element(result, wide, I32(start))
                continue
            lanes[start : start + width] = range(REGISTER_BYTES, REGISTER_BYTES + width)
            result = shuffle(fn, result, wide, lanes)
        return result

    def _flipped(self, value: Any) -> Any:
        return self.fn.b.xor(value, like(value, self.flip)) if self.flip else value

    def _store(self, value: Any, target: Any, count: int, total: Any, unit_bytes: int) -> Any:
        """Store the units that hold the first ``count`` bytes; gives ``total`` with the sum of all."""
        fn, unit = self.fn, self.block.unit
        for number in range(-(-count // unit)):
            part = shuffle(fn, value, value, range(number * unit, (number + 1) * unit))
            fn.store(part, fn.at(target, number * unit_bytes), unit)
        if self.owed is None:
            return total
        return fn.b.add(total, horizontal(fn, "add", fn.b.sext(value, retyped(value, I32))))


def _powers(count: int) -> Iterator[tuple[int, int]]:
    """Starts and widths of the powers of two that make up ``count``."""
    start = 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        yield start, width
        start += width


def gathers(geometry: mac.Geometry, block: BlockProduct) -> bool:
    """Whether runs are no whole units, so that those of a pixel are first copied side by side."""
    return geometry.runs > 1 and geometry.run_length % block.unit > 0


def least_memory(geometry: mac.Geometry, block: BlockProduct, pixels: int) -> int:
    """Bytes of a panel of one tile, with all that is needed to fill it."""
    length = geometry.runs * geometry.run_length
    return tile_bytes(length, block, pixels) + (length if gathers(geometry, block) else 0)


def tile_bytes(length: int, block: BlockProduct, pixels: int) -> int:
    """Bytes of a tile of pixels with ``length`` activations each."""
    return -(-length // block.unit) * block.unit * block_pixels(block, pixels)


def block_pixels(block: BlockProduct, pixels: int) -> int:
    """Pixels in registers of sums that hold at least ``pixels``."""
    return -(-pixels // block.tile_pixels) * block.tile_pixels
