"""STRIDED_SLICE with all its masks."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.index import Index
from qimport.qnn.strided_slice import StridedSlice


@dataclass(frozen=True)
class Selection:
    """What one entry of begin, end and strides says of one dimension of the operand.

    An open ``begin`` or ``end`` (its mask bit is set) reaches to the border. ``shrink`` drops the dimension.
    """

    begin: int | None
    end: int | None
    stride: int
    shrink: bool = False


ADDED = None
"""In the list of selections: a new dimension of size 1, which takes none of the operand's."""

EVERYTHING = Selection(None, None, 1)


@importer("STRIDED_SLICE", versions=range(1, 9))
def strided_slice(context: OperatorContext) -> None:
    """Resolve begin, end, strides and the five masks to a first index, a stride and a count per dimension.

    Indices may be computed at run time where they drop their dimension.
    """
    context.operands(4)
    x = context.input(0)
    checks.moves(context, x, context.out)
    if context.input(1).data is None and context.input(1) not in context.unknown:
        _index(context, x)
        return
    selections = _read_selections(context, len(x.type.shape))
    offset = bool(context.option("offset"))
    firsts, strides, counts, shape = [], [], [], []
    lengths = iter(x.type.shape)
    for selection in selections:
        if selection is ADDED:
            shape.append(1)
            continue
        first, count = _resolve(context, selection, next(lengths), offset)
        firsts.append(first)
        strides.append(selection.stride)
        counts.append(count)
        if not selection.shrink:
            shape.append(count)
    op = StridedSlice(begin=tuple(firsts), stride=tuple(strides), size=tuple(counts))
    context.emit(op, (x,), shape)


def _index(context: OperatorContext, x: Value) -> None:
    """Every entry is an index, or takes its whole dimension."""
    begin, shape = context.input(1), x.type.shape
    checks.one_of(context, begin, ("int32",))
    checks.rank(context, begin, 1)
    if begin.type.size > len(shape):
        context.misfit(f"begin has {begin.type.size} numbers for shape {shape}", begin)
    strides = context.integers(3, "list of strides")

    def flag(mask: str, entry: int) -> bool:
        return bool(context.option(mask) >> entry & 1)

    axes = []
    for entry in range(begin.type.size):
        simple = not flag("ellipsis_mask", entry) and not flag("new_axis_mask", entry)
        index = flag("shrink_axis_mask", entry) and not flag("begin_mask", entry)
        whole = not flag("shrink_axis_mask", entry)
        whole = whole and flag("begin_mask", entry) and flag("end_mask", entry) and strides[entry] == 1
        if not simple or not (index or whole):
            sentence = "begin is computed at run time; expected a constant, or single indices that drop their"
            context.unsupported(f"{sentence} dimension beside whole dimensions", begin)
        axes += [entry] if index else []
    op = Index(axes=tuple(axes), entries=tuple(axes))
    context.emit(op, (x, begin), [size for axis, size in enumerate(shape) if axis not in axes])


def _read_selections(context: OperatorContext, rank: int) -> list[Selection | None]:
    """One selection per dimension of the operand, with the added dimensions between them.

    As in the interpreter an ellipsis takes at least one dimension, and entries for which none is left then
    count for nothing.
    """
    begin, end = context.integers(1, "begin"), context.integers(2, "end")
    strides = context.integers(3, "list of strides")
    if not len(begin) == len(end) == len(strides):
        context.malformed(f"begin, end and strides have {len(begin)}, {len(end)} and {len(strides)} numbers")

    def flag(mask: str, entry: int) -> bool:
        return bool(context.option(mask) >> entry & 1)

    entries = range(len(begin))
    ellipses = [entry for entry in entries if flag("ellipsis_mask", entry)]
    added = {entry for entry in entries if flag("new_axis_mask", entry)} - set(ellipses)
    covered = len(begin) - len(ellipses) - len(added)
    if len(ellipses) > 1 or covered > rank:
        context.misfit(
            f"it selects along {covered} dimensions with {len(ellipses)} ellipses; the rank is {rank}"
        )
    rest: list[Selection | None] = [EVERYTHING] * max(rank - covered, len(ellipses))
    selections: list[Selection | None] = []
    for entry in entries:
        if entry in ellipses:
            selections += rest
        elif entry in added:
            selections.append(ADDED)
        else:
            first = None if flag("begin_mask", entry) else begin[entry]
            last = None if flag("end_mask", entry) else end[entry]
            selections.append(Selection(first, last, strides[entry], flag("shrink_axis_mask", entry)))
    selections = (selections if ellipses else selections + rest)[: rank + len(added)]
    if selections.count(ADDED) != len(added):
        context.misfit("there is no dimension left for an ellipsis before a new one")
    return selections


def _resolve(context: OperatorContext, selection: Selection, length: int, offset: bool) -> tuple[int, int]:
    """First index and count along a dimension; indices outside are clamped, as in a Python slice.

    ``offset``: ``end`` counts from ``begin``.
    """
    stride = selection.stride
    if stride == 0 or (selection.shrink and stride < 0):
        context.malformed(
            f"a stride is {stride}; expected {'a positive number' if selection.shrink else 'not 0'}"
        )
    lowest, highest = (0, length) if stride > 0 else (-1, length - 1)

    def clamp(index: int) -> int:
        return min(max(index + length if index < 0 else index, lowest), highest)

    backwards = stride < 0
    border = highest if backwards else 0
    first = border if selection.begin is None else clamp(selection.begin)
    if selection.shrink:
        if first >= length:
            context.misfit(f"index {selection.begin} lies outside a dimension of {length}")
        return first, 1
    if selection.end is None:
        last = lowest if backwards else length
    else:
        last = clamp(selection.end + first if offset else selection.end)
    return first, max(0, -((first - last) // stride))
