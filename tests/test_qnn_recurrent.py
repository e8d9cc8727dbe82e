"""SVDF, LSTM and RNN: specification, lowering and interpreter over successive invocations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from emulated_kernels import check_emulated
from emulator import PLATFORMS
from kernel_harness import KernelModule, check, kernel_of

from qimport import prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.errors import UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.interpret import initial_states, interpret
from qimport.ir.types import TensorType
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.oracle import Oracle
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator import draw_model
from tests.one_operator.recurrent import FAMILIES
from tests.single_op import expect_same


def run(graph: Graph, sequence: Sequence[Sequence[Array]], mode: Numerics) -> list[Array]:
    """The first output of successive invocations."""
    states = initial_states(graph)
    return [interpret(graph, list(inputs), mode, states=states)[0] for inputs in sequence]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(1000, 1006))
def test_recurrent(name: str, seed: int, oracle: Oracle) -> None:
    model = draw_model(name, seed)
    graph = import_model(read_model(model.file)).graph
    for mode in X86_NUMERICS[:1] if seed % 2 else X86_NUMERICS:
        specified = run(graph, model.invocations, mode)
        lowered = run(lower(graph, mode), model.invocations, mode)
        answers = oracle.run_sequence(model.file, model.invocations, mode)
        for number, (one, other, answer) in enumerate(zip(specified, lowered, answers, strict=True)):
            what = f"{name} {seed} {model.text}, invocation {number} in {mode}"
            expect_same(other, one, f"{what}, lowered")
            expect_same(one, answer[0], what)


@pytest.fixture(params=["x86-64", "x86-64-v3", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """Two x86 levels, and everything this machine has."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


@pytest.mark.parametrize(("kind", "bits"), [("logistic", 3), *(("tanh", bits) for bits in range(7))])
def test_every_16_bit_activation(target: str, kind: str, bits: int) -> None:
    codes = np.arange(-(2**15), 2**15).astype(np.int16)
    for array in (codes, codes[::4099]):
        b, x = Builder(), Value(TensorType("int16", array.shape), "x")
        op = prim.Activation16("tanh" if kind == "tanh" else "logistic", bits)
        check(kernel_of(b.nodes, b.emit(op, (x,), x.type)), [array], target)


@pytest.mark.parametrize("count", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("spread", [0, 1, 300, 32768])
def test_layer_normalization_in_integers(target: str, count: int, spread: int) -> None:
    rng = np.random.default_rng(count + spread)
    rows = rng.integers(-spread, spread + 1, (3, count)).clip(-32768, 32767).astype(np.int16)
    rows[0] = -32768 if spread > 300 else 0
    weights = Builder.constant(rng.integers(-32768, 32768, count).astype(np.int16))
    bias = Builder.constant(rng.integers(-(2**31), 2**31, count).astype(np.int32))
    for multiplier, exponent, guard in ((2**30, -13, 1), (2**31 - 1, -2, 700), (0, 0, 1)):
        b, x = Builder(), Value(TensorType("int16", rows.shape), "x")
        op = prim.LayerNorm16(multiplier, exponent, guard)
        check(kernel_of(b.nodes, b.emit(op, (x, weights, bias), x.type)), [rows], target)


def test_primitives_on_arm64(tmp_path: Path) -> None:
    PLATFORMS["arm64"].skip_if_missing()
    rng = np.random.default_rng(0)
    codes = np.arange(-(2**15), 2**15, 7).astype(np.int16)
    rows = rng.integers(-3000, 3000, (3, 37)).astype(np.int16)
    module, operands = KernelModule(resolve_target("arm64")), []
    for kind, bits in (("logistic", 3), ("tanh", 0), ("tanh", 6)):
        b, x = Builder(), Value(TensorType("int16", codes.shape), "x")
        op = prim.Activation16("tanh" if kind == "tanh" else "logistic", bits)
        module.add(kernel_of(b.nodes, b.emit(op, (x,), x.type)), name=f"{kind}{bits}")
        operands.append([codes])
    b, x = Builder(), Value(TensorType("int16", rows.shape), "x")
    weights = Builder.constant(rng.integers(-32768, 32768, 37).astype(np.int16))
    bias = Builder.constant(rng.integers(-99999, 99999, 37).astype(np.int32))
    y = b.emit(prim.LayerNorm16(2**30, -9, 1), (x, weights, bias), x.type)
    module.add(kernel_of(b.nodes, y), name="norm")
    assert check_emulated(module, [*operands, [rows]], tmp_path) == []


def test_svdf_of_8_bit_state_is_refused() -> None:
    model = ModelBuilder()
    x = model.tensor((1, 2), "int8", 0.1)
    feature = model.tensor((2, 2), "int8", 0.1, data=np.ones((2, 2)))
    time = model.tensor((2, 3), "int8", 0.1, data=np.ones((2, 3)))
    state = model.tensor((1, 6), "int8", 0.1, is_variable=True)
    y = model.tensor((1, 2), "int8", 0.1)
    model.operator("SVDF", [x, feature, time, -1, state], [y], 3, rank=1, fused_activation_function="RELU")
    with pytest.raises(
        UnsupportedError, match=r"the state has element type int8, but the kernel reads int16"
    ):
        import_model(read_model(model.build([x], [y])))
