"""Plans for several threads lie in the arena so that every thread writes where it has worked before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qimport import prim
from qimport.ir.graph import Builder, Graph, Value
from qimport.ir.types import TensorType
from qimport.lower import affinity, parallel, schedule
from qimport.lower.affinity import LINE, offsets_by_thread
from qimport.lower.arena import Lifetime, assign_offsets, check_offsets
from qimport.lower.joining import join_calls
from qimport.lower.parallel import even_spans
from qimport.lower.partition import Span, part
from qimport.lower.plan import KernelCall, Operand, ParallelCall, Plan
from qimport.lower.schedule import make_plan


@pytest.fixture(autouse=True)
def everything_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels as small as those of the tests are split, too."""
    monkeypatch.setattr(parallel, "SMALLEST_WORK", 0)


def chain(layers: int, rows: int, padding: int) -> Graph:
    """Convolutions of int8, one after the other, each of a padded map."""
    build, rng = Builder(), np.random.default_rng(layers)
    value = first = Value(TensorType("int8", (1, rows, 8, 16)), "x")
    for outputs in [16, 48, 32, 64, 24][:layers] * (layers // 5 or 1):
        channels = value.type.shape[3]
        shape = (1, rows + 2 * padding, 8 + 2 * padding, channels)
        around = (0, padding, padding, 0)
        window = 2 * padding + 1
        value = build.emit(prim.Pad(around, around, 0), (value,), TensorType("int8", shape))
        w = build.constant(rng.integers(-9, 9, (outputs, window, window, channels)).astype(np.int8))
        op, bias = prim.Mac(), build.constant(np.zeros(outputs, np.int32))
        value = build.emit(op, (value, w, bias), op.result_type(value.type, w.type))
        factors = (
            build.constant(np.full(outputs, 2**30, np.int32)),
            build.constant(np.full(outputs, -9, np.int32)),
        )
        value = build.emit(prim.Rescale("double_away"), (value, *factors), value.type)
        value = build.emit(prim.Clamp(0, -128, 127), (value,), TensorType("int8", value.type.shape))
    return Graph("chain", (first,), (value,), tuple(build.nodes))


def foreign_lines(plan: Plan) -> int:
    """Lines of the arena that a thread writes and another one has touched last."""
    last = np.full(-(-plan.arena_bytes // LINE), -1)
    found = 0
    for call in plan.calls:
        parts = call.parts if isinstance(call, ParallelCall) else ((call,),)
        for thread, mine in enumerate(parts):
            for one in mine:
                assert isinstance(one, KernelCall)
                for operand in () if one.pads_in_place else one.operands:
                    last[lines_of(operand)] = thread
                for operand in one.written():
                    lines = lines_of(operand)
                    found += np.count_nonzero((last[lines] >= 0) & (last[lines] != thread))
                    last[lines] = thread
    return found


def lines_of(operand: Operand) -> npt.NDArray[np.int64]:
    """The lines of the arena that it touches, element by element."""
    if operand.space != "arena":
        return np.zeros(0, np.int64)
    return np.unique((operand.positions(0) * operand.type.itemsize + operand.offset) // LINE)


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_threads_stay_where_they_were(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain(10, 40, 1)
    mine = make_plan(graph, threads)
    monkeypatch.setattr(schedule, "offsets_by_thread", lambda lifetimes, calls: assign_offsets(lifetimes))
    smallest = make_plan(graph, threads)
    assert foreign_lines(mine) < foreign_lines(smallest) / 2
    assert smallest.arena_bytes <= mine.arena_bytes <= affinity.GROWTH * smallest.arena_bytes
    assert len(join_calls(mine).calls) < len(join_calls(smallest).calls)


def test_pads_are_parts_of_what_they_surround() -> None:
    plan = join_calls(make_plan(chain(4, 24, 1), 2))
    pads = [
        number
        for call in plan.calls
        if isinstance(call, ParallelCall)
        for number, mine in enumerate(call.parts)
        for one in mine
        if one.pads_in_place
    ]
    assert pads == [0, 1] * 3, "each thread its rows of every pad"
    assert all(isinstance(call, ParallelCall) for call in plan.calls)


@pytest.mark.parametrize(
    ("before", "after"),
    [((0, 1, 1, 0), (0, 1, 1, 0)), ((0, 3, 0, 0), (0, 0, 0, 2)), ((0, 0, 2, 1), (0, 2, 0, 0))],
    ids=str,
)
def test_rows_of_a_pad_in_place(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    """They write what the whole pad writes, each byte once, and surround the same operand."""
    x, build = Value(TensorType("int8", (1, 7, 5, 3)), "x"), Builder()
    shape = tuple(a + b + size for a, b, size in zip(before, after, x.type.shape, strict=True))
    doubled = build.emit(prim.Binary("add"), (x, x), x.type)
    padded = build.emit(prim.Pad(before, after, 7), (doubled,), TensorType("int8", shape))
    (_, whole) = make_plan(Graph("pad", (x,), (padded,), tuple(build.nodes))).calls
    assert isinstance(whole, KernelCall) and whole.pads_in_place
    pieces = [part(whole.kernel, span) for span in even_spans(1, shape[1], 2, 1)]
    parts = [whole.part(piece) for piece in pieces if piece is not None]
    assert len(parts) == 2 and all(one.pads_in_place for one in parts)
    assert places([box for one in parts for box in one.written()]) == places(whole.written())
    assert places([operand for one in parts for operand in one.operands]) == places(whole.operands)


def places(operands: Sequence[Operand]) -> list[int]:
    """Where all elements lie; twice what is in two of the operands."""
    return sorted(int(place) for operand in operands for place in operand.positions(operand.offset))


def test_rows_of_padding_alone_are_no_part() -> None:
    kernel = next(call for call in make_plan(chain(2, 24, 1)).calls if call.results[0].type.shape[1] == 26)
    assert isinstance(kernel, KernelCall) and part(kernel.kernel, Span(1, 0, 1)) is None


def test_large_graphs_take_fewer_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fewest trials buffers still do not overlap; check_plan says so."""
    monkeypatch.setattr(affinity, "TRIALS", 0)
    monkeypatch.setattr(affinity, "FEWEST", 1)
    make_plan(chain(10, 40, 1), 2)


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=20)
)
def test_live_buffers_never_overlap(lives: list[tuple[int, int, int]]) -> None:
    lifetimes = [Lifetime.whole(nbytes, first, first + length) for nbytes, first, length in lives]
    check_offsets(lifetimes, offsets_by_thread(lifetimes, []))
