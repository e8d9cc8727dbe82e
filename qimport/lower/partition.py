"""Cuts a kernel into kernels for parts of its result.

Every element of a result depends on its own operands alone, so a part is an ordinary kernel with smaller
shapes: of the operands it takes what its elements read, of the attributes those that speak of positions are
moved. No byte changes. Only elementwise nodes take what is no run of memory out of an operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qimport import prim
from qimport.ir.graph import Node, Operation, Value
from qimport.lower.fuse import ELEMENTWISE, Group
from qimport.lower.kernel import Kernel, Strides, dense_strides, make_kernel
from qimport.prim.tables import tensors


@dataclass(frozen=True)
class Span:
    """Indices ``first`` to before ``last`` of dimension ``axis``."""

    axis: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many."""
        return self.last - self.first


@dataclass(frozen=True)
class Part:
    """A kernel for a part of a result, and where it begins: elements into each operand and the result."""

    kernel: Kernel
    operands: tuple[int, ...]
    result: int


class _Uncuttable(Exception):
    """A root would read what is no run of memory, or its operation is not cut along that dimension."""


Spans = tuple[Span | None, ...]
"""What is taken of every operand of a node; None for all of it."""

RootRule = Callable[[Node, Span], tuple[Operation, Spans]]


def part(kernel: Kernel, span: Span) -> Part | None:
    """The kernel of ``span`` of the result; None where it cannot be cut so."""
    try:
        return _Cut(kernel, span).part()
    except _Uncuttable:
        return None


def flattened(kernel: Kernel) -> Kernel:
    """The same kernel on one row of pixels instead of an image, if it treats each pixel by itself.

    Shapes keep their rank: [1, ..., 1, pixels, channels]. Other kernels are given back unchanged.
    """
    shape, strides = kernel.result.type.shape, kernel.result_strides
    if len(shape) < 2 or not _by_pixels(kernel.root):
        return kernel
    if strides is not None:
        even = all(strides[axis] == shape[axis + 1] * strides[axis + 1] for axis in range(len(shape) - 2))
        if not even:
            return kernel
        pixel = strides[-2]
        strides = (*[math.prod(shape[:-1]) * pixel] * (len(shape) - 2), pixel, strides[-1])
    weights = kernel.root.inputs[1:] if isinstance(kernel.root.op, prim.Mac | prim.FloatMac) else ()
    if any(value in weights for value in (kernel.root.inputs[0], *_read(kernel.epilogue)) if value):
        return kernel  # a value times itself
    known: dict[Value, Value] = {value: value for value in weights if value is not None}
    for node in kernel.graph.nodes:
        for value in (*node.inputs, *node.outputs):
            if value is None or value in known:
                continue
            flat = _flat_shape(value.type.shape, shape)
            if flat is None:
                return kernel
            data = None if value.data is None else value.data.reshape(flat)
            known[value] = Value(replace(value.type, shape=flat), value.name, data)
    return _rebuilt(kernel, [node.op for node in kernel.graph.nodes], known, strides)


def _read(nodes: Sequence[Node]) -> Iterator[Value | None]:
    """What nodes read."""
    return (value for node in nodes for value in node.inputs)


def _by_pixels(root: Node) -> bool:
    """Whether each run along the last dimension of the result is computed from one such run of operands."""
    op = root.op
    if isinstance(op, prim.Mac | prim.FloatMac):
        x, w = root.inputs[:2]
        assert x is not None and w is not None
        return op.stride == (1, 1) and x.type.shape[:3] == root.outputs[0].type.shape[:3] and _pointwise(root)
    return isinstance(op, (*ELEMENTWISE, prim.Softmax))


def _pointwise(root: Node) -> bool:
    return _window(root)[:2] == (1, 1)


def _flat_shape(shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...] | None:
    """``shape`` beside a ``result`` whose pixels stand in one row; None where it does not go with them."""
    if all(size == 1 for size in shape[:-1]):
        return shape
    if shape[:-1] != result[:-1]:
        return None
    return (*[1] * (len(shape) - 2), math.prod(shape[:-1]), shape[-1])


def _rebuilt(
    kernel: Kernel,
    operations: list[Operation],
    known: dict[Value, Value],
    strides: Strides | None,
    strided: Mapping[Value, Strides] | None = None,
) -> Kernel:
    """``kernel`` with other operations on other values."""
    nodes = [
        Node(
            op,
            tuple(None if value is None else known[value] for value in node.inputs),
            tuple(known[value] for value in node.outputs),
            node.origin,
        )
        for node, op in zip(kernel.graph.nodes, operations, strict=True)
    ]
    for node in nodes:
        node.op.verify(node.call())
    return make_kernel(Group(tuple(nodes), known[kernel.result]), strides, kernel.in_place, strided)


class _Cut:
    """One run of :func:`part`: the values of the part, and where operands begin."""

    def __init__(self, kernel: Kernel, span: Span) -> None:
        self.kernel, self.span = kernel, span
        self.known: dict[Value, Value] = {}
        self.taken: dict[Value, Span | None] = {}
        self.begins: dict[Value, int] = {}
        self.strided: dict[Value, Strides] = {}

    def part(self) -> Part:
        """The part, or :class:`_Uncuttable`."""
        operations = []
        for node in self.kernel.graph.nodes:
            if isinstance(node.op, ELEMENTWISE):
                op, spans = self._elementwise(node)
            else:
                op, spans = _root_rule(node)(node, self.span)
            operations.append(op)
            for value, taken in zip(node.inputs, spans, strict=True):
                if value is not None:
                    self._take(value, taken)
            for value in node.outputs:
                self._take(value, self._aligned(value))
        kernel = _rebuilt(self.kernel, operations, self.known, self._strides(), self.strided)
        begins = tuple(self.begins.get(value, 0) for value in self.kernel.graph.inputs)
        strides = self.kernel.result_strides or dense_strides(self.kernel.result.type.shape)
        return Part(kernel, begins, self.span.first * strides[self.span.axis])

    def _elementwise(self, node: Node) -> tuple[Operation, Spans]:
        """Operands broadcast to the result; tables are taken whole."""
        spans = [None if value is None else self._aligned(value) for value in tensors(node)]
        spans += [None] * (len(node.inputs) - len(spans))
        op: Operation = node.op
        if isinstance(op, prim.Rescale) and self._channels(node.outputs[0]):
            op = rescale_of_channels(op, self.span)
        return op, tuple(spans)

    def _channels(self, value: Value) -> bool:
        taken = self._aligned(value)
        return taken is not None and taken.axis == len(value.type.shape) - 1

    def _aligned(self, value: Value) -> Span | None:
        """What a part needs of a value that broadcasts to the result."""
        shape, whole = value.type.shape, self.kernel.result.type.shape
        axis = self.span.axis - len(whole) + len(shape)
        if axis < 0 or shape[axis] != whole[self.span.axis]:
            return None
        return Span(axis, self.span.first, self.span.last)

    def _take(self, value: Value, taken: Span | None) -> None:
        """Enter the part of a value; all readers must want the same."""
        if value in self.known:
            if self.taken[value] != taken:
                raise _Uncuttable
            return
        self.taken[value] = taken
        if taken is None:
            self.known[value] = value
            return
        shape = value.type.shape
        if value in self.kernel.graph.inputs:
            self.begins[value] = taken.first * math.prod(shape[taken.axis + 1 :])
        type_ = replace(value.type, shape=(*shape[: taken.axis], taken.size, *shape[taken.axis + 1 :]))
        data = None
        if value.data is not None:
            indices = (*[slice(None)] * taken.axis, slice(taken.first, taken.last))
            data = np.ascontiguousarray(value.data[indices])
        self.known[value] = Value(type_, value.name, data)
        if value in self.kernel.graph.inputs and math.prod(shape[: taken.axis]) != 1:
            self._take_apart(value)

    def _take_apart(self, value: Value) -> None:
        """An operand that is no run of memory any more: elementwise nodes read it where it is."""
        readers = [node for node in self.kernel.graph.nodes if value in node.inputs]
        elementwise = all(isinstance(node.op, ELEMENTWISE) for node in readers)
        if not elementwise or value.type.shape != self.kernel.result.type.shape:
            raise _Uncuttable
        self.strided[self.known[value]] = dense_strides(value.type.shape)

    def _strides(self) -> Strides | None:
        """Parts of rows, and of whatever is not the outermost, lie as far apart as in the whole."""
        shape, strides = self.kernel.result.type.shape, self.kernel.result_strides
        if strides is None and math.prod(shape[: self.span.axis]) != 1:
            return dense_strides(shape)
        return strides


def rescale_of_channels(op: prim.Rescale, span: Span) -> prim.Rescale:
    """The operation for the channels of ``span``; they are counted from its begin."""
    if op.leftover is None or op.leftover_from >= span.last:
        return replace(op, leftover=None, leftover_from=0)
    if op.leftover_from <= span.first:
        return replace(op, rounding=op.leftover, leftover=None, leftover_from=0)
    return replace(op, leftover_from=op.leftover_from - span.first)


def _root_rule(node: Node) -> RootRule:
    for kinds, rule in ROOT_RULES:
        if isinstance(node.op, kinds):
            return rule
    raise _Uncuttable


def _cut_mac(node: Node, span: Span) -> tuple[Operation, Spans]:
    """Output channels take their weights; rows of the image what their windows read, whole images images."""
    op = node.op
    assert isinstance(op, prim.Mac | prim.FloatMac)
    if span.axis == 3:
        if op.groups != 1:
            raise _Uncuttable
        outputs = 0 if isinstance(op, prim.Mac) else 3
        return op, (None, replace(span, axis=outputs), replace(span, axis=0))
    if span.axis == 0:
        return op, (span, None, None)
    if isinstance(op, prim.Mac) and op.padding != ((0, 0), (0, 0)):
        raise _Uncuttable
    along = span.axis - 1
    reach = (_window(node)[along] - 1) * op.dilation[along] + 1
    step = op.stride[along]
    return op, (Span(span.axis, span.first * step, (span.last - 1) * step + reach), None, None)


def _window(node: Node) -> tuple[int, int]:
    """Height and width of the window of a multiply-accumulate."""
    weights = node.inputs[1]
    assert weights is not None
    shape = weights.type.shape
    return (shape[1], shape[2]) if isinstance(node.op, prim.Mac) else (shape[0], shape[1])


def _cut_window(node: Node, span: Span) -> tuple[Operation, Spans]:
    """Padding that a part does not touch is none for it."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, prim.Window) and x is not None
    if span.axis in (0, 3):
        return op, (span,)
    along = span.axis - 1
    extent = x.type.shape[span.axis]
    begin = span.first * op.stride[along] - op.padding[along][0]
    end = (span.last - 1) * op.stride[along] - op.padding[along][0] + op.size[along]
    padding = list(op.padding)
    padding[along] = (max(-begin, 0), max(end - extent, 0))
    first, second = padding
    return replace(op, padding=(first, second)), (Span(span.axis, max(begin, 0), min(end, extent)),)


def _cut_pad(node: Node, span: Span) -> tuple[Operation, Spans]:
    """A part surrounds its part of the operand, if it has one."""
    op, x = node.op, node.inputs[0]
    assert isinstance(op, prim.Pad) and x is not None
    axis, extent = span.axis, x.type.shape[span.axis]
    begin, end = span.first - op.before[axis], span.last - op.before[axis]
    inside = Span(axis, max(begin, 0), min(end, extent))
    if inside.size <= 0:
        raise _Uncuttable
    before = (*op.before[:axis], max(-begin, 0), *op.before[axis + 1 :])
    after = (*op.after[:axis], max(end - extent, 0), *op.after[axis + 1 :])
    return replace(op, before=before, after=after), (inside,)


def _cut_reduce(node: Node, span: Span) -> tuple[Operation, Spans]:
    """Along dimensions that stay."""
    assert isinstance(node.op, prim.Reduce)
    if span.axis in node.op.axes:
        raise _Uncuttable
    return node.op, (span,)


def _cut_rows(node: Node, span: Span) -> tuple[Operation, Spans]:
    """Rows of the last dimension stay whole; further operands are tables."""
    if span.axis == len(node.outputs[0].type.shape) - 1:
        raise _Uncuttable
    return node.op, (span, *[None] * (len(node.inputs) - 1))


def _cut_resize(node: Node, span: Span) -> tuple[Operation, Spans]:
    """Rows of the result take their places in the image, which every part sees whole."""
    others = len(node.inputs) - 1
    if span.axis == 0:
        return node.op, (span, *[None] * others)
    if span.axis != 1:
        raise _Uncuttable
    rows = 1 if isinstance(node.op, prim.Sample) else 3
    return node.op, (None, *[replace(span, axis=0)] * rows, *[None] * (others - rows))


ROOT_RULES: tuple[tuple[type[Operation] | tuple[type[Operation], ...], RootRule], ...] = (
    ((prim.Mac, prim.FloatMac), _cut_mac),
    (prim.Window, _cut_window),
    (prim.Pad, _cut_pad),
    (prim.Reduce, _cut_reduce),
    ((prim.Softmax, prim.RowSum), _cut_rows),
    ((prim.Sample, prim.Interpolate), _cut_resize),
)
"""How the roots are cut; kernels with other roots stay whole."""
