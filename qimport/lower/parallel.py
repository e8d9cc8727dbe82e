"""Plans for several threads: heavy kernel calls become groups of calls that write parts of the result.

Kernels stay functions of one thread, and the bytes are those of one thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qimport import prim
from qimport.ir.graph import Node
from qimport.lower.kernel import Kernel, multiply_accumulates
from qimport.lower.partition import Part, Span, flattened, part
from qimport.lower.plan import KernelCall, ParallelCall, PlanCall

SMALLEST_WORK = 2_000_000
"""Kernels of less work stay whole: handing out parts and waiting for them costs one to five microseconds."""

BYTE = 32
"""Multiply-accumulates of a matrix unit while one byte is read or written."""

FETCHED = 128
"""The same while one byte comes from another core that has just written it."""

DEPTHWISE = 16
"""The same during a multiply-accumulate of vector code that uses each element of its input a few times."""

ELEMENT_STEP = 16
"""The same during one elementwise node on one element."""

CHANNELS = 32
"""Parts of channels hold a multiple: what matrix units take at a time."""


def split_calls(calls: Sequence[PlanCall], threads: int) -> list[PlanCall]:
    """``calls`` for up to ``threads`` threads.

    Those of less than :data:`SMALLEST_WORK` stay whole, and so does control flow, inside which nothing is
    split. Operands and results stay where they are, so lifetimes are those of the whole calls.
    """
    return [_split_call(call, threads) if threads > 1 else call for call in calls]


def work(kernel: Kernel) -> int:
    """What a kernel costs, roughly, in multiply-accumulates of a matrix unit."""
    if isinstance(kernel.root.op, prim.Pad) and kernel.in_place:
        return BYTE * (kernel.result.type.nbytes - kernel.graph.inputs[0].type.nbytes)
    touched = (*kernel.graph.inputs, *kernel.constants(), kernel.result)
    total = BYTE * sum(value.type.nbytes for value in touched)
    for node in kernel.graph.nodes:
        total += _work_of_node(node)
    return total


def _work_of_node(node: Node) -> int:
    op, size = node.op, node.outputs[0].type.size
    if isinstance(op, prim.Mac | prim.FloatMac):
        slow = op.groups > 1 or isinstance(op, prim.FloatMac)
        return multiply_accumulates(node) * (DEPTHWISE if slow else 1)
    if isinstance(op, prim.Window):
        return size * math.prod(op.size) * ELEMENT_STEP
    if isinstance(op, prim.Reduce | prim.RowSum):
        return node.inputs[0].type.size * ELEMENT_STEP if node.inputs[0] else 0
    return size * ELEMENT_STEP


@dataclass(frozen=True)
class _Way:
    """One way to cut a kernel, along ``axis`` of its result."""

    kernel: Kernel
    axis: int
    parts: tuple[Part, ...]

    @property
    def cost(self) -> float:
        """The work of the largest part, and what cores fetch from each other.

        Rows of an image are mostly computed where the rows they depend on were; channels need all of the
        input, and the kernels after it all channels.
        """
        largest = max(work(piece.kernel) for piece in self.parts)
        if self.axis < len(self.kernel.result.type.shape) - 1:
            return largest
        images = (*self.kernel.graph.inputs, self.kernel.result)
        fetched = sum(value.type.nbytes for value in images) * (1 - 1 / len(self.parts))
        return largest + FETCHED * fetched


def _split_call(call: PlanCall, threads: int) -> PlanCall:
    """The call in parts, if it is worth it and can be cut."""
    if not isinstance(call, KernelCall) or work(call.kernel) < SMALLEST_WORK:
        return call
    ways = list(_ways(flattened(call.kernel), threads))
    if not ways:
        return call
    best = min(ways, key=lambda way: way.cost)
    return ParallelCall(tuple((call.part(piece),) for piece in best.parts))


def _ways(kernel: Kernel, threads: int) -> Iterator[_Way]:
    """Along the first dimension that can be cut, and along channels."""
    shape, outer = kernel.result.type.shape, outermost(kernel)
    if outer is None:
        return
    for axis in dict.fromkeys((outer, len(shape) - 1)):
        unit = CHANNELS if axis == len(shape) - 1 else 1
        spans = even_spans(axis, shape[axis], threads, unit)
        pieces = [part(kernel, span) for span in spans]
        parts = tuple(piece for piece in pieces if piece is not None)
        if len(spans) > 1 and len(parts) == len(spans):
            yield _Way(kernel, axis, parts)


def outermost(kernel: Kernel) -> int | None:
    """The first dimension of a result that is not 1."""
    return next((axis for axis, size in enumerate(kernel.result.type.shape) if size > 1), None)


def even_spans(axis: int, size: int, count: int, unit: int) -> list[Span]:
    """Up to ``count`` parts of a dimension whose sizes differ by at most ``unit``, in multiples of it."""
    units = math.ceil(size / unit)
    count = min(count, units)
    ends = [min(size, unit * (units * (number + 1) // count)) for number in range(count)]
    return [Span(axis, first, last) for first, last in zip([0, *ends], ends, strict=False)]
