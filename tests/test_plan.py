"""Kernel plans: executed call by call on one byte array, they give what the graph gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from kernel_harness import element_indices, run_program, same_bytes
from prim_graphs import PrimGraph

from qimport import prim
from qimport.codegen.host import resolve_target
from qimport.codegen.program import generate
from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.interpret import interpret
from qimport.ir.rewrite import remove_dead_nodes
from qimport.ir.types import ALIGNMENT, TensorType
from qimport.lower.fuse import ELEMENTWISE, MAX_FUSED, fuse
from qimport.lower.pipeline import lower
from qimport.lower.plan import KernelCall, Operand, Plan, check_plan
from qimport.lower.schedule import make_plan
from qimport.lower.simplify import simplify
from qimport.numerics import X86_NUMERICS
from tests.random_graphs import RandomGraph


class Machine:
    """Memory of a plan, filled with noise; runs kernel calls with the interpreter."""

    def __init__(self, plan: Plan, inputs: Sequence[Array], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.plan = plan
        self.inputs = [np.frombuffer(array.tobytes(), np.uint8) for array in inputs]
        self.outputs = [rng.integers(0, 256, type_.nbytes).astype(np.uint8) for type_ in plan.outputs]
        self.arena = rng.integers(0, 256, plan.arena_bytes).astype(np.uint8)

    def run(self) -> list[Array]:
        """Every call in order; then the outputs."""
        for call in self.plan.calls:
            self.step(call)
        pairs = zip(self.outputs, self.plan.outputs, strict=True)
        return [array.view(type_.numpy).reshape(type_.shape) for array, type_ in pairs]

    def step(self, call: KernelCall) -> None:
        """One kernel; it must not write what it still reads."""
        kernel = call.kernel
        assert [c.tobytes() for c in call.constants] == [
            np.asarray(v.data).tobytes() for v in kernel.constants()
        ]
        operands = [self.memory(o)[_bytes(o)].view(o.type.numpy).reshape(o.type.shape) for o in call.operands]
        written = _bytes(call.result)
        for position, operand in enumerate(call.operands):
            same_memory = (operand.space, operand.index) == (call.result.space, call.result.index)
            if same_memory and np.intersect1d(_bytes(operand), written).size:
                assert _may_share(call, position), f"{kernel.describe()} overwrites operand {position}"
        found = interpret(kernel.graph, operands)[0]
        assert call.result.space != "input"
        self.memory(call.result)[written] = np.frombuffer(found.tobytes(), np.uint8)

    def memory(self, operand: Operand) -> Array:
        """The bytes an operand lies in."""
        if operand.space == "arena":
            return self.arena
        return (self.inputs if operand.space == "input" else self.outputs)[operand.index]


def _bytes(operand: Operand) -> Array:
    size, elements = operand.type.itemsize, element_indices(operand.type, operand.strides)
    return (operand.offset + elements[:, None] * size + np.arange(size)).ravel()


def _may_share(call: KernelCall, position: int) -> bool:
    """Whether the kernel says that it works in place, and reads this operand one element at a time.

    The operand of a pad lies inside its result.
    """
    if isinstance(call.kernel.root.op, prim.Pad):
        return call.kernel.in_place
    value, operand = call.kernel.graph.inputs[position], call.operands[position]
    readers = [node for node in call.kernel.graph.nodes if value in node.inputs]
    alike = operand.offset == call.result.offset and operand.type.shape == call.result.type.shape
    alike = alike and operand.type.itemsize == call.result.type.itemsize
    elementwise = all(isinstance(node.op, ELEMENTWISE) for node in readers)
    return call.kernel.in_place and alike and elementwise and call.result.strides == operand.strides


def random_inputs(graph: Graph, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, v.type.shape).astype(v.type.numpy) for v in graph.inputs]


def check(graph: Graph, seed: int = 0) -> Plan:
    """The plan of ``graph``, after comparing what it computes."""
    plan, inputs = make_plan(graph), random_inputs(graph, seed)
    for found, wanted in zip(Machine(plan, inputs).run(), interpret(graph, inputs), strict=True):
        assert same_bytes(found, wanted), str(plan)
    return plan


@pytest.mark.parametrize("seed", range(120))
def test_random_graphs(seed: int) -> None:
    graph = PrimGraph(seed).grow(4 + seed % 13)
    check(graph, seed)
    check(remove_dead_nodes(graph), seed)


@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed: int) -> None:
    graph = RandomGraph(seed, "int8").grow(9)
    for mode in X86_NUMERICS:
        check(lower(graph, mode), seed)


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_graphs_as_native_code(seed: int) -> None:
    graph, host = PrimGraph(seed).grow(12), resolve_target("host")
    plan, inputs = make_plan(graph), random_inputs(graph, seed)
    results = run_program(generate(plan, host), plan, host, inputs)
    for found, wanted in zip(results, interpret(graph, inputs), strict=True):
        assert same_bytes(found, wanted), str(plan)


@pytest.mark.parametrize("seed", range(40))
def test_groups_partition_the_graph(seed: int) -> None:
    """Every node is in one group, and groups run after the groups they read."""
    graph = PrimGraph(seed).grow(14)
    groups = fuse(graph)
    assert sorted(map(id, (n for g in groups for n in g.nodes))) == sorted(map(id, graph.nodes))
    known = {*graph.inputs, *graph.constants()}
    for group in groups:
        inside = {value for node in group.nodes for value in node.outputs}
        read = {value for node in group.nodes for value in node.inputs if value is not None}
        assert read <= known | inside
        assert group.result is group.nodes[-1].outputs[0]
        known.add(group.result)
    assert set(graph.outputs) <= known


class Small:
    """Shorthand for building the graphs below."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.b = Builder()
        self.rng = np.random.default_rng(0)
        self.inputs = [Value(TensorType("int8", shape), f"x{i}") for i, shape in enumerate(shapes)]

    def constant(self, *shape: int) -> Value:
        return self.b.constant(self.rng.integers(-128, 128, shape).astype(np.int8))

    def lut(self, x: Value) -> Value:
        return self.b.emit(prim.Lut(), (x, self.constant(256)), x.type)

    def concat(self, axis: int, *parts: Value) -> Value:
        shape = list(parts[0].type.shape)
        shape[axis] = sum(part.type.shape[axis] for part in parts)
        return self.b.emit(prim.Concat(axis), parts, TensorType("int8", tuple(shape)))

    def reshape(self, x: Value, *shape: int) -> Value:
        return self.b.emit(prim.Reshape(), (x,), TensorType("int8", shape))

    def rows(self, x: Value, first: int, count: int) -> Value:
        """``count`` indices of the first dimension."""
        rank = len(x.type.shape)
        begin, shape = (first, *[0] * (rank - 1)), (count, *x.type.shape[1:])
        return self.b.emit(prim.Slice(begin, (1,) * rank), (x,), TensorType("int8", shape))

    def pad(
        self, x: Value, before: tuple[int, ...] = (0, 1, 2, 0), after: tuple[int, ...] = (0, 1, 1, 0)
    ) -> Value:
        shape = np.add(x.type.shape, np.add(before, after)).tolist()
        return self.b.emit(prim.Pad(before, after, -7), (x,), TensorType("int8", tuple(shape)))

    def sums(self, x: Value, outputs: int = 4) -> Value:
        op, bias = prim.Mac(), self.b.constant(np.arange(outputs, dtype=np.int32))
        w = self.constant(outputs, 1, 1, x.type.shape[3])
        return self.b.emit(op, (x, w, bias), op.result_type(x.type, w.type))

    def depthwise(self, x: Value) -> Value:
        channels = x.type.shape[3]
        op, bias = prim.Mac(groups=channels), self.b.constant(np.arange(channels, dtype=np.int32))
        w = self.constant(channels, 3, 3, 1)
        return self.b.emit(op, (x, w, bias), op.result_type(x.type, w.type))

    def wide(self, x: Value) -> Value:
        return self.b.emit(prim.Cast(), (x,), TensorType("int32", x.type.shape))

    def add(self, a: Value, b: Value) -> Value:
        shape = np.broadcast_shapes(a.type.shape, b.type.shape)
        return self.b.emit(prim.Binary("add"), (a, b), TensorType("int32", shape))

    def clamp(self, x: Value) -> Value:
        return self.b.emit(prim.Clamp(0, -128, 127), (x,), TensorType("int8", x.type.shape))

    def check(self, *outputs: Value) -> list[str]:
        """Check the plan, also as native code; the kernels without their result types."""
        graph = Graph("small", tuple(self.inputs), outputs, tuple(self.b.nodes))
        plan, host, inputs = check(graph), resolve_target("host"), random_inputs(graph, 0)
        results = run_program(generate(plan, host), plan, host, inputs)
        for found, wanted in zip(results, interpret(graph, inputs), strict=True):
            assert same_bytes(found, wanted), str(plan)
        return [call.kernel.describe().partition(" ->")[0] for call in plan.calls]


def test_parts_are_produced_in_their_slice() -> None:
    s = Small((1, 2, 3, 4))
    parts = [s.lut(s.inputs[0]) for _ in range(3)]
    assert s.check(s.concat(3, *parts)) == ["lut"] * 3


def test_a_concatenation_in_a_concatenation() -> None:
    s = Small((1, 2, 3, 4))
    a, b, c, d = (s.lut(s.inputs[0]) for _ in range(4))
    assert s.check(s.concat(3, a, s.concat(3, b, c), d)) == ["lut"] * 4


def test_concatenations_of_different_dimensions() -> None:
    """Parts of the inner one are blocks of rows that lie apart."""
    s = Small((1, 4), (2, 3))
    a, b, c = s.lut(s.inputs[0]), s.lut(s.inputs[0]), s.lut(s.inputs[1])
    assert s.check(s.concat(1, s.concat(0, a, b), c)) == ["lut"] * 3


def test_what_is_padded_is_produced_inside() -> None:
    """By any kind of kernel; afterwards only what surrounds it is written."""
    s = Small((2, 3, 5, 4))
    x = s.inputs[0]
    turned = s.b.emit(prim.Transpose((0, 2, 1, 3)), (x,), TensorType("int8", (2, 5, 3, 4)))
    made = (s.lut(x), s.clamp(s.sums(x)), s.reshape(s.lut(x), 2, 5, 3, 4), turned)
    kernels = s.check(*map(s.pad, made))
    assert kernels.count("pad in place") == 4
    assert sorted(set(kernels)) == ["lut", "mac+clamp", "pad in place", "reshape", "transpose"]


def test_padded_layers_in_strips() -> None:
    """Padded maps of 11 x 9 pixels around 9 x 7 fit where two maps without their borders would."""
    s = Small((1, 9, 7, 4))
    x = s.clamp(s.sums(s.inputs[0], 32))
    for _ in range(3):
        x = s.clamp(s.depthwise(s.pad(x, (0, 1, 1, 0))))
        x = s.clamp(s.sums(x, 32))
    kernels = s.check(x)
    assert kernels.count("pad in place") == 3
    assert kernels.count("mac+clamp") > 7
    graph = Graph("small", tuple(s.inputs), (x,), tuple(s.b.nodes))
    assert make_plan(graph).arena_bytes <= 1.04 * 2 * 9 * 7 * 32 < 9 * 7 * 32 + 11 * 9 * 32


def test_what_is_padded_and_read_elsewhere_is_copied() -> None:
    """Unless it is one block of the padded tensor; kernels read what is dense."""
    s = Small((1, 3, 5, 4))
    made = s.lut(s.inputs[0])
    assert s.check(s.pad(made), s.lut(made)) == ["lut", "pad", "lut"]
    s = Small((1, 3, 5, 4))
    made = s.lut(s.inputs[0])
    kernels = s.check(s.pad(made, (0, 2, 0, 0), (1, 0, 0, 0)), s.lut(made), s.pad(made), s.pad(s.inputs[0]))
    assert kernels == ["lut", "pad in place", "lut", "pad", "pad"]


def test_concatenations_and_pads_in_each_other() -> None:
    s = Small((1, 3, 5, 4))
    x = s.inputs[0]
    inner = s.concat(3, s.pad(s.lut(x)), s.pad(s.concat(3, s.clamp(s.sums(x)), s.lut(x))))
    nothing = (0, 0, 0, 0)
    other = s.pad(s.concat(3, x, s.lut(x), s.lut(x)), nothing, nothing)
    kernels = s.check(s.pad(s.concat(1, inner, s.pad(other, (0, 0, 1, 0), (0, 0, 2, 0)))))
    assert kernels.count("reshape") == 1
    assert sorted(set(kernels)) == ["lut", "mac+clamp", "pad in place", "reshape"]


def test_a_part_that_is_read_elsewhere_or_twice() -> None:
    s = Small((1, 2, 3, 4))
    a, b = s.lut(s.inputs[0]), s.lut(s.inputs[0])
    assert sorted(s.check(s.concat(3, a, b, a), s.lut(b))) == ["lut"] * 3 + ["reshape"] * 3


def test_parts_that_exist_before() -> None:
    """A graph input, a constant, a graph output, a value of another concatenation."""
    s = Small((2, 4))
    made = s.lut(s.inputs[0])
    first = s.concat(1, s.inputs[0], s.constant(2, 3), made)
    second = s.concat(0, made, s.inputs[0], s.constant(1, 4))
    assert s.check(made, first, second).count("lut") == 1


def test_a_reshaped_part() -> None:
    s = Small((2, 6), (3, 4))
    made = s.reshape(s.lut(s.inputs[0]), 3, 4)
    assert s.check(s.concat(1, made, s.lut(s.inputs[1]))) == ["lut", "reshape", "lut"]


def test_results_that_are_no_kernel() -> None:
    """Inputs, constants, reshapes of inputs, one value twice."""
    s = Small((2, 6))
    x = s.inputs[0]
    made, flat = s.lut(x), s.reshape(x, 12)
    again = s.reshape(made, 3, 4)
    kernels = s.check(x, x, s.constant(3), flat, made, made, again)
    assert kernels.count("lut") == 1
    assert kernels.count("reshape") == 6


def test_slices_of_inputs_are_no_copies() -> None:
    s = Small((4, 6))
    a, b = s.rows(s.inputs[0], 1, 2), s.rows(s.inputs[0], 3, 1)
    assert s.check(s.lut(a), s.lut(b)) == ["lut", "lut"]


def test_a_sliced_result() -> None:
    """The slice of a result is copied from it; a slice that is a result is copied out of the arena."""
    s = Small((4, 6))
    whole, other = s.lut(s.inputs[0]), s.lut(s.inputs[0])
    assert s.check(whole, s.rows(whole, 2, 2), s.rows(other, 0, 3)).count("slice") == 2


def test_a_chain_works_in_place() -> None:
    s = Small((1, 300))
    value = s.clamp(s.add(s.wide(s.inputs[0]), s.wide(s.inputs[0])))
    for _ in range(4):
        value = s.rows(s.concat(0, s.lut(value), s.inputs[0]), 0, 1)
    s.check(value)
    t = Small((1, 3, 5, 4))
    value = t.inputs[0]
    for _ in range(4):
        value = t.clamp(t.add(t.sums(value), t.wide(value)))
    graph = Graph("chain", tuple(t.inputs), (value,), tuple(t.b.nodes))
    plan = check(graph)
    assert plan.arena_bytes <= 2 * ALIGNMENT
    t.check(value)


def test_long_chains_are_cut_at_narrow_tensors() -> None:
    s = Small((1, 8))
    value = s.inputs[0]
    for _ in range(3 * MAX_FUSED):
        value = s.clamp(s.add(s.wide(value), s.wide(s.inputs[0])))
    kernels = s.check(value)
    assert len(kernels) > 3
    assert max(kernel.count("+") for kernel in kernels) < MAX_FUSED + 4


def test_two_convolutions_meet() -> None:
    """The later one adds the other's result, which is stored with its smallest type."""
    s = Small((1, 3, 5, 4))
    early = s.wide(s.clamp(s.sums(s.inputs[0])))
    late = s.sums(s.lut(s.inputs[0]))
    kernels = s.check(s.clamp(s.add(early, late)))
    assert kernels == ["mac+clamp", "lut", "mac+cast+binary+clamp"]


def test_a_view_of_the_operand_that_would_be_overwritten() -> None:
    """Adding its first row to a tensor must not happen in place."""
    s = Small((4, 1, 1, 6))
    x = s.lut(s.inputs[0])
    total = s.clamp(s.add(s.wide(x), s.wide(s.rows(x, 0, 1))))
    assert s.check(s.clamp(s.sums(total)))[1:] == ["cast+cast+binary+clamp", "mac+clamp"]


@pytest.mark.parametrize("shape", [(1, 2, 1, 1), (1, 2, 3, 1), (1, 1, 3, 4), (1, 2, 1, 4)], ids=str)
def test_convolutions_add_only_what_steps_with_them(shape: tuple[int, ...]) -> None:
    s = Small((1, 2, 3, 4), shape)
    kernels = s.check(s.clamp(s.add(s.sums(s.inputs[0]), s.wide(s.inputs[1]))))
    assert kernels == ["mac", "cast+binary+clamp"]


def test_convolutions_add_one_row_of_channels() -> None:
    s = Small((1, 2, 3, 4), (1, 1, 1, 4))
    assert s.check(s.clamp(s.add(s.sums(s.inputs[0]), s.wide(s.inputs[1])))) == ["mac+cast+binary+clamp"]


def test_sums_are_reshaped_after_they_are_rescaled() -> None:
    """Unless channels change: factors are per channel."""
    for shape, wanted in (((6, 4), ["mac+rescale+clamp"]), ((3, 8), ["mac", "rescale+clamp"])):
        s = Small((2, 3, 1, 4))
        sums = s.b.emit(prim.Reshape(), (s.sums(s.inputs[0]),), TensorType("int32", shape))
        factors = (s.b.constant(np.full(1, 2**30, np.int32)), s.b.constant(np.full(1, -5, np.int32)))
        scaled = s.b.emit(prim.Rescale("double_away"), (sums, *factors), sums.type)
        graph = Graph("g", tuple(s.inputs), (s.clamp(scaled),), tuple(s.b.nodes))
        plan = check(remove_dead_nodes(simplify(graph, "reference")))
        names = [call.kernel.describe().partition(" ->")[0] for call in plan.calls]
        assert [name for name in names if name != "reshape"] == wanted


def test_a_broadcast_convolution_keeps_its_own_kernel() -> None:
    s = Small((1, 1, 1, 4), (1, 2, 3, 4))
    kernels = s.check(s.clamp(s.add(s.sums(s.inputs[0]), s.wide(s.inputs[1]))))
    assert kernels == ["mac", "cast+binary+clamp"]


def bad_plans() -> dict[str, tuple[Callable[[KernelCall], KernelCall], str]]:
    """Changes to a call that break a plan, and what is said about it."""

    def result(change: int) -> Callable[[KernelCall], KernelCall]:
        def apply(call: KernelCall) -> KernelCall:
            moved = dataclasses.replace(call.result, offset=call.result.offset + change)
            return dataclasses.replace(call, result=moved)

        return apply

    def operand(call: KernelCall) -> KernelCall:
        moved = dataclasses.replace(call.operands[0], offset=1)
        return dataclasses.replace(call, operands=(moved, *call.operands[1:]))

    def strides(call: KernelCall) -> KernelCall:
        return dataclasses.replace(call, result=dataclasses.replace(call.result, strides=None))

    return {
        "behind": (result(1), "ends at"),
        "before": (result(-1000), "ends at"),
        "operand": (operand, "ends at"),
        "strides": (strides, "does not lie"),
    }


@pytest.mark.parametrize("name", bad_plans())
def test_a_bad_plan_is_our_bug(name: str) -> None:
    change, complaint = bad_plans()[name]
    s = Small((1, 2, 3, 4))
    result = s.concat(3, s.lut(s.inputs[0]), s.lut(s.inputs[0]))
    plan = make_plan(Graph("g", tuple(s.inputs), (result,), tuple(s.b.nodes)))
    broken = dataclasses.replace(plan, calls=(*plan.calls[:-1], change(plan.calls[-1])))
    check_plan(plan)
    with pytest.raises(CompilerBug, match=f"kernel call 1: .* {complaint}"):
        check_plan(broken)


def test_zeros_of_unlike_sign_share_no_code() -> None:
    x = Value(TensorType("float32", (1, 2, 2, 1)), "x")
    build, padded = Builder(), TensorType("float32", (1, 4, 4, 1))
    sides = ((0, 1, 1, 0), (0, 1, 1, 0))
    outputs = tuple(build.emit(prim.Pad(*sides, zero), (x,), padded) for zero in (0.0, -0.0))
    plan = make_plan(Graph("zeros", (x,), outputs, tuple(build.nodes)))
    first, second = (call.kernel for call in plan.calls if isinstance(call, KernelCall))
    assert first.key != second.key
