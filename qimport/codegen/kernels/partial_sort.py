"""The first few of an order as libstdc++'s ``std::partial_sort`` leaves them, which is not stable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qimport.codegen.function import I32, I64, Index, KernelFunction, index


def loop_while(
    fn: KernelFunction,
    carried: Sequence[Any],
    condition: Callable[..., Any],
    body: Callable[..., Sequence[Any]],
) -> list[Any]:
    """``while condition(*carried): carried = body(*carried)``; the last ``carried``."""
    before, head = fn.b.block, fn.function.append_basic_block("while")
    fn.b.branch(head)
    fn.b.position_at_end(head)
    phis = [fn.b.phi(value.type) for value in carried]
    for phi, value in zip(phis, carried, strict=True):
        phi.add_incoming(value, before)
    inside, after = (fn.function.append_basic_block(name) for name in ("do", "done"))
    fn.b.cbranch(condition(*phis), inside, after)
    fn.b.position_at_end(inside)
    for phi, value in zip(phis, body(*phis), strict=True):
        phi.add_incoming(value, fn.b.block)
    fn.b.branch(head)
    fn.b.position_at_end(after)
    return phis


@dataclass(frozen=True)
class PartialSort:
    """Sorts numbers 0..count - 1, which it writes to ``memory`` as i32, by descending ``value``.

    :func:`qimport.overlap.partial_sort` is the same in Python.
    """

    fn: KernelFunction
    memory: Any
    value: Callable[[Any], Any]

    def emit(self, count: int, wanted: int) -> None:
        """Leave the first ``wanted`` numbers of the order at the front of ``memory``."""
        fn, b = self.fn, self.fn.b
        fn.loop(0, count, 1, lambda k: self._put(b.trunc(index(k), I32), k))
        parents = wanted // 2

        def heapify(k: Index) -> None:
            parent = b.sub(index(parents - 1), index(k))
            self._adjust(parent, index(wanted), self.at(parent))

        def take(k: Index) -> None:
            number = self.at(k)
            with b.if_then(self._before(number, self.at(0))):
                self._put(self.at(0), k)
                self._adjust(index(0), index(wanted), number)

        def place(k: Index) -> None:
            last = b.sub(index(wanted - 1), index(k))
            number = self.at(last)
            self._put(self.at(0), last)
            self._adjust(index(0), last, number)

        fn.loop(0, parents, 1, heapify)
        fn.loop(wanted, count, 1, take)
        fn.loop(0, wanted - 1, 1, place)

    def at(self, place: Index) -> Any:
        """The number at a place of the memory."""
        return self.fn.load(self.fn.element(self.memory, place, "int32"), I32)

    def _put(self, number: Any, place: Index) -> None:
        self.fn.store(number, self.fn.element(self.memory, place, "int32"))

    def _before(self, one: Any, two: Any) -> Any:
        b = self.fn.b
        return b.fcmp_ordered(">", *(self.value(b.sext(number, I64)) for number in (one, two)))

    def _adjust(self, hole: Any, length: Any, number: Any) -> None:
        """``std::__adjust_heap``: the hole goes down to a leaf, the number up from there."""
        b = self.fn.b
        inner = b.lshr(b.sub(length, index(1)), index(1))

        def down(place: Any) -> list[Any]:
            right = b.shl(b.add(place, index(1)), index(1))
            left = b.sub(right, index(1))
            child = b.select(self._before(self.at(right), self.at(left)), left, right)
            self._put(self.at(child), place)
            return [child]

        (leaf,) = loop_while(self.fn, [hole], lambda place: b.icmp_signed("<", place, inner), down)
        left = b.add(b.shl(leaf, index(1)), index(1))
        single = b.icmp_signed("==", b.add(left, index(1)), length)
        with b.if_then(single):
            self._put(self.at(left), leaf)
        self._raise(hole, b.select(single, left, leaf), number)

    def _raise(self, top: Any, hole: Any, number: Any) -> None:
        b = self.fn.b

        def parent(place: Any) -> Any:
            return b.lshr(b.sub(place, index(1)), index(1))

        def above(place: Any) -> Any:
            inside = b.icmp_signed(">", place, top)
            safe = b.select(inside, parent(place), index(0))
            return b.and_(inside, self._before(self.at(safe), number))

        def up(place: Any) -> list[Any]:
            self._put(self.at(parent(place)), place)
            return [parent(place)]

        (place,) = loop_while(self.fn, [hole], above, up)
        self._put(number, place)
