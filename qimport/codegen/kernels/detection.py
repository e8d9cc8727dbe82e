"""The choice of boxes after an object detector, one candidate at a time."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport import prim
from qimport.codegen.function import F32, I32, I64, Index, index
from qimport.codegen.kernels import access
from qimport.codegen.kernels.partial_sort import PartialSort
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.lower.kernel import Kernel

GONE, LEFT, CHOSEN = (ir.Constant(I32, number) for number in range(3))
"""States of a candidate."""

NOWHERE = index(-1)


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Keys and states of all candidates, suppression per class, then the best of those chosen."""
    op, (boxes, scores) = kernel.root.op, kernel.root.inputs
    if not isinstance(op, prim.Detect) or boxes is None or scores is None or kernel.epilogue:
        raise CompilerBug("a detection kernel is one prim.detect")
    detection = _Detection(module, name, kernel, target, layout, op)
    detection.start()
    detection.suppress()
    detection.report()
    return detection.fn.finish()


class _Detection:
    """The function under construction, its operands and the parts of its result."""

    def __init__(
        self, module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout, op: prim.Detect
    ) -> None:
        boxes, scores = (value for value in kernel.root.inputs if value is not None)
        self.fn = access.start(module, name, kernel, target)
        self.b = self.fn.b
        self.op = op
        self.boxes = access.pointer_to(self.fn, kernel, layout, boxes)
        self.scores = access.pointer_to(self.fn, kernel, layout, scores)
        self.count, self.width = scores.type.shape
        self.groups = op.classes if op.regular else 1
        self.keys = 6 * op.slots + 1
        self.states = self.keys + self.groups * self.count

    def _load(self, pointer: Any, place: Index, type_: Any = F32) -> Any:
        return self.fn.load(self.fn.element(pointer, place, "float32"), type_)

    def _store(self, value: Any, place: Index) -> None:
        self.fn.store(value, self.fn.element(self.fn.result, place, "float32"))

    def _key(self, candidate: Index) -> Any:
        return self._load(self.fn.result, self.fn.add(self.keys, candidate))

    def _state(self, candidate: Index) -> Any:
        return self._load(self.fn.result, self.fn.add(self.states, candidate), I32)

    def _score(self, box: Index, kind: Index) -> Any:
        first = self.width - self.op.classes
        place = self.fn.add(self.fn.mul(box, self.width), self.fn.add(first, kind))
        return self._load(self.scores, place)

    def start(self) -> None:
        """Results of zeros, keys from the scores, and which candidates reach the threshold."""
        fn, b = self.fn, self.b
        fn.fill(fn.result, 0, 4 * self.keys)
        threshold = ir.Constant(F32, self.op.score_threshold)

        def best(box: Index) -> Any:
            def step(kind: Index, total: Any) -> list[Any]:
                value = self._score(box, kind)
                return [b.select(b.fcmp_ordered(">", value, total), value, total)]

            return fn.loop(1, self.op.classes, 1, step, [self._score(box, 0)])[0]

        def group(number: Index) -> None:
            def candidate(box: Index) -> None:
                key = self._score(box, number) if self.op.regular else best(box)
                place = fn.add(fn.mul(number, self.count), box)
                self._store(key, fn.add(self.keys, place))
                kept = b.fcmp_ordered(">=", key, threshold)
                self._store(b.select(kept, LEFT, GONE), fn.add(self.states, place))

            fn.loop(0, self.count, 1, candidate)

        fn.loop(0, self.groups, 1, group)

    def _best(self, first: Index, count: int, state: Any) -> tuple[Any, Any]:
        """Key and number of the best of ``count`` candidates in this state, the earliest of equal ones."""
        b = self.b

        def step(k: Index, best: Any, place: Any) -> list[Any]:
            candidate = self.fn.add(first, k)
            key = self._key(candidate)
            none = b.icmp_signed("==", place, NOWHERE)
            better = b.or_(none, b.fcmp_ordered(">", key, best))
            found = b.and_(b.icmp_signed("==", self._state(candidate), state), better)
            return [b.select(found, key, best), b.select(found, index(candidate), place)]

        best, place = self.fn.loop(0, count, 1, step, [ir.Constant(F32, 0.0), NOWHERE])
        return best, place

    def suppress(self) -> None:
        """Per group: choose the best candidate left, drop what overlaps it."""
        fn, b = self.fn, self.b
        most = min(self.op.per_class if self.op.regular else self.op.detections, self.count)

        def group(number: Index) -> None:
            first = fn.mul(number, self.count)

            def choose(_: Index) -> None:
                _, place = self._best(first, self.count, LEFT)
                with b.if_then(b.icmp_signed("!=", place, NOWHERE)):
                    self._store(CHOSEN, fn.add(self.states, place))
                    self._drop(first, b.sub(place, index(first)))

            fn.loop(0, most, 1, choose)

        fn.loop(0, self.groups, 1, group)

    def _box(self, box: Index) -> list[Any]:
        return [self._load(self.boxes, self.fn.add(self.fn.mul(box, 4), side)) for side in range(4)]

    def _drop(self, first: Index, chosen: Any) -> None:
        """Candidates that overlap the chosen box too much are gone."""
        fn, b = self.fn, self.b
        mine = self._box(chosen)
        threshold = ir.Constant(F32, self.op.overlap_threshold)

        def step(box: Index) -> None:
            place = fn.add(first, box)
            state = self._state(place)
            above = b.fcmp_ordered(">", self._overlap(mine, self._box(box)), threshold)
            dropped = b.and_(above, b.icmp_signed("==", state, LEFT))
            self._store(b.select(dropped, GONE, state), fn.add(self.states, place))

        fn.loop(0, self.count, 1, step)

    def _overlap(self, one: list[Any], two: list[Any]) -> Any:
        """:func:`qimport.overlap.overlap` of two boxes."""
        b, zero = self.b, ir.Constant(F32, 0.0)

        def larger(x: Any, y: Any) -> Any:
            return b.select(b.fcmp_ordered("<", x, y), y, x)

        def smaller(x: Any, y: Any) -> Any:
            return b.select(b.fcmp_ordered("<", y, x), y, x)

        def area(box: list[Any]) -> Any:
            return b.fmul(b.fsub(box[2], box[0]), b.fsub(box[3], box[1]))

        sides = [
            larger(b.fsub(smaller(one[k + 2], two[k + 2]), larger(one[k], two[k])), zero) for k in (0, 1)
        ]
        intersection, areas = b.fmul(*sides), [area(one), area(two)]
        ratio = b.fdiv(intersection, b.fsub(b.fadd(*areas), intersection))
        empty = b.or_(*(b.fcmp_ordered("<=", value, zero) for value in areas))
        return b.select(empty, zero, ratio)

    def report(self) -> None:
        """The best of all chosen candidates, and how many there are."""
        fn, b = self.fn, self.b

        def slot(number: Index, total: Any) -> list[Any]:
            key, place = self._best(0, self.groups * self.count, CHOSEN)
            found = b.icmp_signed("!=", place, NOWHERE)
            with b.if_then(found):
                self._store(GONE, fn.add(self.states, place))
                box = b.urem(place, index(self.count))
                if self.op.regular:
                    self._write(number, box, b.udiv(place, index(self.count)), key)
                else:
                    self._write_classes(fn.mul(number, self.op.per_box), box)
            return [b.fadd(total, b.uitofp(found, F32))]

        total = fn.loop(0, self.op.detections, 1, slot, [ir.Constant(F32, 0.0)])[0]
        self._store(total, 6 * self.op.slots)

    def _write(self, slot: Index, box: Index, kind: Any, score: Any) -> None:
        fn, slots = self.fn, self.op.slots
        for side, value in enumerate(self._box(box)):
            self._store(value, fn.add(fn.mul(slot, 4), side))
        self._store(self.b.sitofp(kind, F32), fn.add(4 * slots, slot))
        self._store(score, fn.add(5 * slots, slot))

    def _write_classes(self, slot: Index, box: Any) -> None:
        """The best classes of a box."""
        fn, reported = self.fn, min(self.op.per_box, self.op.classes)
        if reported == 1:
            kind = self._first_best(box)
            self._write(slot, box, kind, self._score(box, kind))
            return
        memory = fn.element(fn.result, self.states + self.groups * self.count, "float32")
        order = PartialSort(fn, memory, lambda kind: self._score(box, kind))
        order.emit(self.op.classes, reported)

        def write(k: Index) -> None:
            kind = self.b.sext(order.at(k), I64)
            self._write(fn.add(slot, k), box, kind, self._score(box, kind))

        fn.loop(0, reported, 1, write)

    def _first_best(self, box: Any) -> Any:
        def step(kind: Index, best: Any, place: Any) -> list[Any]:
            value = self._score(box, kind)
            better = self.b.fcmp_ordered(">", value, best)
            return [self.b.select(better, value, best), self.b.select(better, index(kind), place)]

        return self.fn.loop(1, self.op.classes, 1, step, [self._score(box, 0), index(0)])[1]
