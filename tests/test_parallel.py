"""Plans for several threads: parts of kernels, the pool that runs them, the same bytes as from one thread."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from aot_harness import CC, STRICT, build, planned, run_tool
from conftest import ROOT
from kernel_harness import element_indices, kernel_of, run_program, same_bytes
from prim_graphs import PrimGraph
from test_plan import Machine, random_inputs

import qimport
from qimport import oracle, prim
from qimport.codegen import elf
from qimport.codegen.backend import object_code
from qimport.codegen.host import host_target, resolve_target, why_not_runnable
from qimport.codegen.pool import ThreadPool, shared_pool
from qimport.codegen.pool_code import TICKET, WORKERS, pool_code, supports
from qimport.codegen.program import generate
from qimport.codegen.target import ARM64, X86_64, Architecture, Target
from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType
from qimport.lower import parallel
from qimport.lower.joining import join_calls
from qimport.lower.kernel import Kernel
from qimport.lower.parallel import even_spans
from qimport.lower.partition import Part, Span, flattened, part
from qimport.lower.pipeline import lower
from qimport.lower.plan import ParallelCall, Plan, PlanCall, check_plan
from qimport.lower.schedule import make_plan
from qimport.model import CompiledModel
from qimport.numerics import X86_NUMERICS, Numerics
from tests.random_graphs import RandomGraph

MOBILE, INCEPTION = (ROOT / "models" / f"{name}.tflite" for name in ("mobile_int8", "inception_uint8"))


@contextlib.contextmanager
def everything_split() -> Iterator[None]:
    """Kernels as small as those of the tests are split, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "SMALLEST_WORK", 0)
        yield


def split(graph: Graph, threads: int) -> Plan:
    """A plan with everything split that can be split."""
    with everything_split():
        return make_plan(graph, threads)


def joined(graph: Graph, threads: int) -> Plan:
    """The same with as few parallel calls as possible."""
    return join_calls(split(graph, threads))


# Plans


def one_by_one(plan: Plan, seed: int) -> Plan:
    """The same with the calls of all parts one after the other, mixed as unlike threads would do it."""
    rng = np.random.default_rng(seed)
    calls: list[PlanCall] = []
    for call in plan.calls:
        queues = [list(part) for part in call.parts] if isinstance(call, ParallelCall) else [[call]]
        while queues := [queue for queue in queues if queue]:
            calls.append(queues[rng.integers(len(queues))].pop(0))
    return dataclasses.replace(plan, calls=tuple(calls), threads=1)


def check(graph: Graph, threads: int, seed: int) -> tuple[int, int]:
    """Compare what the parts compute with the graph; the parallel calls before and after joining."""
    apart, inputs = split(graph, threads), random_inputs(graph, seed)
    counts = []
    for plan in (apart, join_calls(apart)):
        found = Machine(one_by_one(plan, seed), inputs).run()
        for mine, wanted in zip(found, interpret(graph, inputs), strict=True):
            assert same_bytes(mine, wanted), str(plan)
        groups = [call for call in plan.calls if isinstance(call, ParallelCall)]
        assert all(2 <= len(call.parts) <= threads for call in groups)
        assert plan.threads == (threads if groups else 1)
        counts.append(len(groups))
    return counts[0], counts[1]


def test_random_graphs_in_parts() -> None:
    groups = [check(PrimGraph(seed).grow(4 + seed % 13), 2 + seed % 4, seed) for seed in range(60)]
    apart, together = np.mean(groups, axis=0)
    assert apart > 2 and together < 0.9 * apart


def test_random_networks_in_parts() -> None:
    """Among them are roundings of leftover channels, and pads around padded windows."""
    groups = [
        check(lower(RandomGraph(seed, "int8").grow(9), mode), 3, seed)
        for seed in range(10)
        for mode in X86_NUMERICS
    ]
    apart, together = np.mean(groups, axis=0)
    assert apart > 1 and together < 0.8 * apart


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_parts_as_native_code(seed: int) -> None:
    graph, host = PrimGraph(seed).grow(12), resolve_target("host")
    plan, inputs = joined(graph, 3), random_inputs(graph, seed)
    assert plan.threads == 3
    results = run_program(generate(plan, host), plan, host, inputs)
    for found, wanted in zip(results, interpret(graph, inputs), strict=True):
        assert same_bytes(found, wanted), str(plan)


def test_small_kernels_stay_whole() -> None:
    graph = PrimGraph(1).grow(9)
    assert str(make_plan(graph, 4)) == str(split(graph, 1)) == str(make_plan(graph))
    assert make_plan(graph, 4).threads == 1


def test_parts_that_meet_are_a_bug() -> None:
    plan = split(PrimGraph(0).grow(12), 2)
    number, group = next((n, c) for n, c in enumerate(plan.calls) if isinstance(c, ParallelCall))
    (first,) = group.parts[0]
    moved = dataclasses.replace(first.result, offset=first.result.offset + first.result.type.itemsize)
    broken = ParallelCall(((dataclasses.replace(first, result=moved),), *group.parts[1:]))
    calls = (*plan.calls[:number], broken, *plan.calls[number + 1 :])
    with pytest.raises(CompilerBug, match=rf"kernel call {number}: .* meets "):
        check_plan(dataclasses.replace(plan, calls=calls))


def test_a_plan_names_the_parts() -> None:
    plan = joined(PrimGraph(0).grow(12), 2)
    text, rows = str(plan).splitlines(), generate(plan, resolve_target("host")).rows
    assert len(rows) == len(text) - 1
    assert [row == "parallel" for row in rows] == ["parallel: 2" in line for line in text[1:]]


# Parts of kernels


def sums(x_shape: tuple[int, ...], outputs: int, window: int, **attributes: object) -> tuple[Builder, Value]:
    """A convolution of int8, not requantized yet."""
    build, rng = Builder(), np.random.default_rng(outputs)
    groups = int(attributes.get("groups", 1))  # type: ignore[call-overload]
    w = build.constant(
        rng.integers(-128, 128, (outputs, window, window, x_shape[3] // groups)).astype(np.int8)
    )
    bias = build.constant(rng.integers(-999, 999, outputs).astype(np.int32))
    op, x = prim.Mac(**attributes), Value(TensorType("int8", x_shape), "x")  # type: ignore[arg-type]
    return build, build.emit(op, (x, w, bias), op.result_type(x.type, w.type))


def requantized(build: Builder, value: Value, rescale: prim.Rescale) -> Kernel:
    """A kernel that ends in codes; factors per channel."""
    channels = value.type.shape[-1]
    multiplier = build.constant(np.linspace(2**30, 2**31 - 1, channels).astype(np.int32))
    exponent = build.constant(np.full(channels, -7, np.int32))
    value = build.emit(rescale, (value, multiplier, exponent), value.type)
    value = build.emit(prim.Clamp(3, -128, 127), (value,), TensorType("int8", value.type.shape))
    return kernel_of(build.nodes, value)


def expect_parts(kernel: Kernel, spans: list[Span]) -> list[Part]:
    """Every part gives its elements of the whole result."""
    rng = np.random.default_rng(0)
    operands = [rng.integers(-128, 128, v.type.shape).astype(v.type.numpy) for v in kernel.graph.inputs]
    (whole,) = interpret(kernel.graph, operands)
    parts = []
    for span in spans:
        piece = part(kernel, span)
        assert piece is not None
        taken = [
            array.reshape(-1)[begin:][element_indices(value.type, piece.kernel.strides_of(value))]
            for array, begin, value in zip(operands, piece.operands, piece.kernel.graph.inputs, strict=True)
        ]
        taken = [a.reshape(v.type.shape) for a, v in zip(taken, piece.kernel.graph.inputs, strict=True)]
        indices = (*[slice(None)] * span.axis, slice(span.first, span.last))
        assert same_bytes(interpret(piece.kernel.graph, taken)[0], whole[indices].copy()), span
        parts.append(piece)
    return parts


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_in_rows_and_channels(window: int, stride: int) -> None:
    build, value = sums((1, 9, 7, 5), 70, window, stride=(stride, stride), input_zero=3)
    rescale = prim.Rescale("double_away", "double_up", 64)
    kernel = requantized(build, value, rescale)
    expect_parts(kernel, even_spans(1, kernel.result.type.shape[1], 3, 1))
    first, second, third = expect_parts(kernel, even_spans(3, 70, 3, 32))
    roundings = [(p.kernel.graph.nodes[1].op, p.result) for p in (first, second, third)]
    plain, other = prim.Rescale("double_away"), prim.Rescale("double_up")
    assert roundings == [(plain, 0), (plain, 32), (other, 64)]
    assert first.kernel.result_strides is not None
    (piece,) = expect_parts(kernel, [Span(3, 60, 70)])
    assert piece.kernel.graph.nodes[1].op == prim.Rescale("double_away", "double_up", 4)


def residual(pixels: int, depth: int, outputs: int) -> Kernel:
    """A pointwise layer to which another tensor is added."""
    build, value = sums((1, pixels, 1, depth), outputs, 1)
    other = Value(TensorType("int8", value.type.shape), "y")
    total = build.emit(prim.Binary("add"), (value, build.emit(prim.Cast(), (other,), value.type)), value.type)
    return requantized(build, total, prim.Rescale("double_up"))


@pytest.mark.parametrize("target", ["host", "x86-64"])
def test_channels_of_residuals_lie_apart(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "FETCHED", 0)
    kernel = residual(7, 40, 150)
    parts = expect_parts(kernel, even_spans(3, 150, 2, 32))
    assert all(None in p.kernel.operand_strides and any(p.kernel.operand_strides) for p in parts)
    chosen = resolve_target(target)
    if reason := why_not_runnable(chosen):
        pytest.skip(reason)
    plan = split(kernel.graph, 2)
    assert str(plan).count("strides 1050x1050x150x1") == 4, "operand and result of both parts"
    inputs = random_inputs(kernel.graph, 0)
    (found,) = run_program(generate(plan, chosen), plan, chosen, inputs)
    assert same_bytes(found, interpret(kernel.graph, inputs)[0])


def test_what_is_no_run_of_memory_is_not_cut() -> None:
    build, value = sums((2, 6, 6, 8), 8, 3, groups=8)
    kernel = requantized(build, value, prim.Rescale("double_up"))
    assert part(kernel, Span(3, 0, 4)) is None, "channels of a depthwise layer"
    assert part(kernel, Span(1, 0, 2)) is None, "rows of two images"
    expect_parts(kernel, even_spans(0, 2, 2, 1))


@pytest.mark.parametrize("padding", [((0, 0), (0, 0)), ((1, 1), (1, 0)), ((2, 1), (0, 0))], ids=str)
def test_windows_in_rows(padding: tuple[tuple[int, int], tuple[int, int]]) -> None:
    x = Value(TensorType("int8", (1, 11, 8, 3)), "x")
    op = prim.Window("max", (3, 2), (2, 1), padding)
    along = zip((11, 8), padding, (3, 2), (2, 1), strict=True)
    rows, columns = ((size + sum(pad) - window) // step + 1 for size, pad, window, step in along)
    build = Builder()
    result = build.emit(op, (x,), TensorType("int8", (1, rows, columns, 3)))
    expect_parts(kernel_of(build.nodes, result), even_spans(1, rows, 4, 1))


def test_pads_in_rows() -> None:
    x, build = Value(TensorType("int8", (1, 5, 4, 3)), "x"), Builder()
    result = build.emit(prim.Pad((0, 2, 1, 0), (0, 1, 0, 1), 7), (x,), TensorType("int8", (1, 8, 5, 4)))
    kernel = kernel_of(build.nodes, result)
    expect_parts(kernel, even_spans(1, 8, 2, 1))
    assert part(kernel, Span(1, 0, 2)) is None, "nothing but padding"


def test_pixels_stand_in_one_row() -> None:
    build, value = sums((2, 3, 5, 4), 6, 1)
    residual = build.emit(prim.Cast(), (Value(TensorType("int8", (2, 3, 5, 6)), "y"),), value.type)
    gate = build.constant(np.arange(6, dtype=np.int32).reshape(1, 1, 1, 6))
    total = build.emit(prim.Binary("add"), (value, residual), value.type)
    total = build.emit(prim.Binary("mul"), (total, gate), value.type)
    kernel = flattened(kernel_of(build.nodes, total))
    assert kernel.result.type.shape == (1, 1, 30, 6)
    expect_parts(kernel, even_spans(2, 30, 4, 1))
    build, value = sums((1, 5, 5, 4), 6, 3)
    kernel = kernel_of(build.nodes, value)
    assert flattened(kernel) is kernel


def test_a_value_times_itself_stays_an_image() -> None:
    x = Value(TensorType("int8", (5, 1, 1, 8)), "x")
    build = Builder()
    op = prim.Mac()
    bias = build.constant(np.zeros(5, np.int32))
    result = build.emit(op, (x, x, bias), op.result_type(x.type, x.type))
    kernel = kernel_of(build.nodes, result)
    assert flattened(kernel) is kernel


def test_parts_are_even() -> None:
    assert even_spans(1, 7, 3, 1) == [Span(1, 0, 2), Span(1, 2, 4), Span(1, 4, 7)]
    assert even_spans(3, 100, 2, 32) == [Span(3, 0, 64), Span(3, 64, 100)]
    assert even_spans(0, 2, 8, 1) == [Span(0, 0, 1), Span(0, 1, 2)]


# Whole models


@pytest.mark.parametrize(
    ("file", "numerics"),
    [*((MOBILE, numerics) for numerics in X86_NUMERICS), (INCEPTION, "reference")],
    ids=lambda item: getattr(item, "stem", item),
)
def test_any_number_of_threads_gives_the_same_bytes(file: Path, numerics: Numerics) -> None:
    one = qimport.compile(file, numerics=numerics)
    inputs = oracle.random_inputs(one.inputs, 1)
    wanted = one.run(inputs)
    for threads in (2, 8) if numerics == "reference" else (3,):
        with everything_split():
            model = qimport.compile(file, numerics=numerics, threads=threads)
        assert model.threads == threads
        for _ in range(3):
            assert same(model.run(inputs), wanted)


def same(a: list[Array], b: list[Array]) -> bool:
    return all(same_bytes(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", ["bench/mobilenet_v1*", "zoo/*pretrainedResnet_quant"])
def test_networks_of_the_zoo(name: str) -> None:
    folder = os.environ.get("QIMPORT_ZOO")
    if not folder:
        pytest.skip("QIMPORT_ZOO is unset")
    file = sorted(Path(folder).glob(f"{name}.tflite"))[0]
    one, two = (qimport.compile(file, threads=threads) for threads in (1, 2))
    inputs = oracle.random_inputs(one.inputs, 0)
    assert same(one.run(inputs), two.run(inputs))


@pytest.fixture(scope="module")
def mobile() -> CompiledModel:
    """Two threads work at it."""
    with everything_split():
        return qimport.compile(MOBILE, threads=2)


def test_the_number_of_threads_is_kept(mobile: CompiledModel, tmp_path: Path) -> None:
    inputs = oracle.random_inputs(mobile.inputs, 0)
    mobile.save(tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(mobile)), qimport.load(tmp_path / "model")):
        assert other.threads == 2
        assert same(other.run(inputs), mobile.run(inputs))
    assert qimport.compile(MOBILE, threads=2).threads == 1, "nothing is worth splitting"


def test_many_callers_share_the_pool(mobile: CompiledModel) -> None:
    inputs = [oracle.random_inputs(mobile.inputs, seed) for seed in range(6)]
    wanted = [mobile.run(arrays) for arrays in inputs]

    def work(number: int) -> bool:
        return all(same(mobile.run(inputs[number]), wanted[number]) for _ in range(200))

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(work, range(6)))


def test_workers_wake_up_again(mobile: CompiledModel) -> None:
    session = mobile.session()
    for pause in (0.0, 0.002, 0.02):
        for _ in range(5):
            session.run()
            time.sleep(pause)


# The pool

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, TASK, ctypes.c_void_p, ctypes.c_int64)


def run_tasks(pool: ThreadPool, count: int, seconds: float = 0) -> Counter[int]:
    """How often every index was run; odd ones take that long."""
    seen: Counter[int] = Counter()

    def work(_context: None, index: int) -> None:
        seen.update([index])
        time.sleep(seconds * (index % 2))

    PARALLEL_FOR(pool.parallel_for)(pool.address, TASK(work), None, count)
    return seen


@pytest.fixture
def several_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were four, for which the workers of a pool are as many as wanted."""
    if sys.platform != "linux" or not supports(host_target().architecture):
        pytest.skip("there is no pool on this system")
    monkeypatch.setattr("qimport.codegen.pool.processors", lambda: 4)


@pytest.mark.usefixtures("several_processors")
@pytest.mark.parametrize("threads", [2, 4])
def test_every_part_runs_once(threads: int) -> None:
    pool = ThreadPool(threads)
    pool.start()
    with ThreadPoolExecutor(4) as callers:
        counts = [0, 1, 2, 3, 7, 40] * 50
        for count, seen in zip(counts, callers.map(partial(run_tasks, pool), counts), strict=True):
            assert seen == Counter(range(count))


def test_pools_are_shared_by_size() -> None:
    assert shared_pool(2) is shared_pool(2)
    assert shared_pool(2) is not shared_pool(3)


@pytest.mark.usefixtures("several_processors")
def test_parts_run_on_their_own_threads_or_the_callers() -> None:
    pool, ran = ThreadPool(3), defaultdict(set)
    pool.start()
    task = TASK(lambda _, index: ran[threading.get_native_id()].add(index))
    for _ in range(300):
        PARALLEL_FOR(pool.parallel_for)(pool.address, task, None, 7)
    on_caller = ran.pop(threading.get_native_id())
    assert on_caller >= {0, 3, 6}
    assert all(parts <= {1, 4} or parts <= {2, 5} for parts in ran.values())


@pytest.mark.usefixtures("several_processors")
def test_callers_do_what_no_worker_begins() -> None:
    pool = ThreadPool(4)
    ctypes.c_uint32.from_address(pool.address + WORKERS).value = 3
    for count in (1, 2, 4, 5, 9):
        assert run_tasks(pool, count) == Counter(range(count))


@pytest.mark.usefixtures("several_processors")
def test_no_part_is_lost_after_billions_of_tasks() -> None:
    pool = ThreadPool(4)
    ctypes.c_uint64.from_address(pool.address + TICKET).value = (2**32 - 3) << 16
    pool.start()
    for _ in range(6):
        assert run_tasks(pool, 4) == Counter(range(4))


@pytest.mark.usefixtures("several_processors")
def test_callers_sleep_until_the_last_part_is_done() -> None:
    pool = ThreadPool(4)
    pool.start()
    for _ in range(3):
        assert run_tasks(pool, 4, seconds=0.05) == Counter(range(4))


@pytest.mark.parametrize("architecture", [X86_64, ARM64], ids=lambda architecture: architecture.name)
def test_pools_have_code_for_every_architecture(architecture: Architecture) -> None:
    target = Target("pool", architecture, frozenset())
    content = object_code(pool_code(architecture, 0), target)
    machine, undefined = elf.read_machine(content), elf.undefined_symbols(content)
    assert (machine, undefined) == (architecture.elf_machine, frozenset())


def test_a_pool_for_one_processor_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qimport.codegen.pool.processors", lambda: 1)
    pool = ThreadPool(4)
    assert pool.parallel_for == 0
    pool.start()


FORKS_WHILE_LOADING = """
import os, sys, pickle, threading
content = open(sys.argv[1], "rb").read()
pickle.loads(content).session()

def load_for_ever():
    while True:
        pickle.loads(content).session()

threading.Thread(target=load_for_ever, daemon=True).start()
for _ in range(40):
    child = os.fork()
    if child == 0:
        pickle.loads(content).session()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
os._exit(0)
"""

PROGRAM = """
import os, sys, pickle
model = pickle.load(open(sys.argv[1], "rb"))
session = model.session()
session.run()
wanted = session.outputs[0].tobytes()
child = os.fork()
for _ in range(20):
    session.run()
    assert session.outputs[0].tobytes() == wanted
if child == 0:
    sys.exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("program", [PROGRAM, FORKS_WHILE_LOADING], ids=["computing", "loading"])
def test_forked_processes_compute_and_end(mobile: CompiledModel, program: str, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(pickle.dumps(mobile))
    command = [sys.executable, "-W", "ignore", "-c", program, tmp_path / "model"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Object files


def c_program() -> str:
    """The documented parallel_for, and a comparison of both ways to run."""
    page = (ROOT / "docs" / "deploying.md").read_text()
    blocks = re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "pthread" in block]
    return f"""{block}
#include <string.h>
static DIGITS_INPUT0_TYPE image[DIGITS_INPUT0_ELEMENTS];
static DIGITS_OUTPUT0_TYPE scores[3][DIGITS_OUTPUT0_ELEMENTS];
static unsigned char room[DIGITS_ARENA_BYTES + DIGITS_ARENA_ALIGNMENT];

int main(void) {{
  const void *inputs[] = {{image}};
  void *outputs[] = {{scores[0]}};
  size_t past = (size_t)room % DIGITS_ARENA_ALIGNMENT;
  void *arena = room + (DIGITS_ARENA_ALIGNMENT - past) % DIGITS_ARENA_ALIGNMENT;
  if (digits_run(inputs, outputs, arena) != DIGITS_OK) return 1;
  outputs[0] = scores[1];
  if (digits_run_parallel(inputs, outputs, arena, parallel_for, NULL) != DIGITS_OK) return 2;
  outputs[0] = scores[2];
  if (digits_run_parallel(inputs, outputs, arena, NULL, NULL) != DIGITS_OK) return 3;
  if (digits_run_parallel(inputs, outputs, NULL, parallel_for, NULL) != DIGITS_ERROR_ARENA) return 4;
  return memcmp(scores[0], scores[1], sizeof scores[0]) || memcmp(scores[0], scores[2], sizeof scores[0]);
}}
"""


@pytest.mark.needs(CC)
@pytest.mark.parametrize("threads", [2, 5])
def test_objects_run_on_the_callers_threads(threads: int, tmp_path: Path) -> None:
    with everything_split():
        *_, plan = planned("digits_int8_ptq", "reference", threads)
    build(tmp_path, name="digits", plan=plan)
    (tmp_path / "main.c").write_text(c_program())
    options = [*STRICT, "-pthread"]
    run_tool(CC, *options, "-o", "main", "main.c", "digits.o", directory=tmp_path)
    run_tool(CC, *options, "-c", "digits_example.c", directory=tmp_path)
    run_tool(tmp_path / "main")
