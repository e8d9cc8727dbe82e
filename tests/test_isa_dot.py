"""Every dot-product step computes what its NumPy meaning says."""

from __future__ import annotations

import ctypes
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from emulated_kernels import Invocation, run_emulated, skip_without_tools
from llvmlite import ir

from qimport.codegen import backend
from qimport.codegen.function import I32, KernelFunction
from qimport.codegen.host import why_not_runnable
from qimport.codegen.isa.dot import DOT_PRODUCTS, WORD_PRODUCTS, DotProduct
from qimport.codegen.isa.taps import TAP_PRODUCTS, TapProduct
from qimport.codegen.target import Target, target_descriptions, target_named
from qimport.codegen.vector import vector_type
from qimport.ir.graph import Array
from qimport.ir.types import DTYPES, INTEGER_RANGE

Step = DotProduct | TapProduct

ALL: tuple[Step, ...] = (*DOT_PRODUCTS, *WORD_PRODUCTS, *TAP_PRODUCTS)
X86 = [dot for dot in ALL if dot.architecture == "x86-64"]
EMULATED = [dot for dot in ALL if dot.architecture != "x86-64"]
STEPS = 200


def step_id(dot: Step) -> str:
    """Steps in the names of tests."""
    return f"{dot.name}_taps" if isinstance(dot, TapProduct) else dot.name


def least_target(dot: Step) -> Target:
    """The named target with the fewest features that has the instruction."""
    targets = map(target_named, target_descriptions())
    return min((target for target in targets if dot.available(target)), key=lambda t: len(t.features))


def one_step(dot: Step, target: Target) -> str:
    """``void step(ptr acc, ptr x, ptr w, ptr result)`` as LLVM assembly."""
    module = ir.Module()
    fn = KernelFunction(module, "step", 2, target)
    acc = fn.load(fn.operands[0], vector_type(I32, dot.lanes))
    element = ir.IntType(8 * np.dtype(DTYPES[dot.weight_dtype][1]).itemsize)
    w = fn.load(fn.tables, vector_type(element, dot.group * dot.lanes))
    x = fn.load(fn.operands[1], w.type if isinstance(dot, TapProduct) else I32)
    fn.store(dot.product(fn, acc, x, w), fn.result)
    fn.finish()
    return str(module)


def packed(dot: Step, w: Array) -> Array:
    """Weights [lanes, group] in the order the step wants: see ``mac_tile.pack``."""
    if isinstance(dot, TapProduct):
        return w
    return w.reshape(dot.lanes, -1, dot.adjacent).transpose(1, 0, 2)


def operands(dot: Step, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Accumulators, activations and weights, many of them extreme; words hold differences of bytes."""
    dtype = "int16" if dot.group == 2 else "uint8" if dot.unsigned else "int8"
    low, high = INTEGER_RANGE[dtype]
    shape = (dot.lanes, dot.group) if isinstance(dot, TapProduct) else (dot.group,)
    x = rng.choice([low, high, *rng.integers(low, high + 1, 2)], shape)
    ends = (-128, 127) if dot.weight_dtype == "int8" else (-255, 255)
    w = rng.choice([*ends, *rng.integers(ends[0], ends[1] + 1, 2)], (dot.lanes, dot.group))
    acc = rng.choice([-(2**31), 2**31 - 1, 0, *rng.integers(-(2**31), 2**31, 3)], dot.lanes)
    return acc.astype(np.int32), x.astype(dtype), w.astype(dot.weight_dtype)


def blobs(dot: Step, acc: Array, x: Array, w: Array) -> tuple[bytes, ...]:
    """The arguments of the step, the result last."""
    return acc.tobytes(), x.tobytes(), np.ascontiguousarray(packed(dot, w)).tobytes(), bytes(acc.nbytes)


@pytest.mark.parametrize("dot", X86, ids=step_id)
def test_x86_steps(dot: Step) -> None:
    target = least_target(dot)
    if (reason := why_not_runnable(target)) is not None:
        pytest.skip(f"{dot.name} not run: {reason}")
    parsed, machine = backend.optimized(one_step(dot, target), target)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    step = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(engine.get_function_address("step"))
    rng = np.random.default_rng(1)
    for _ in range(STEPS):
        acc, x, w = operands(dot, rng)
        arguments = [np.zeros(len(blob) + 64, np.uint8) for blob in blobs(dot, acc, x, w)]
        places = [argument[-argument.ctypes.data % 64 :] for argument in arguments]
        for place, blob in zip(places, blobs(dot, acc, x, w), strict=True):
            place[: len(blob)] = np.frombuffer(blob, np.uint8)
        step(*(place.ctypes.data for place in places))
        found = places[-1][: acc.nbytes].view(np.int32)
        assert np.array_equal(found, dot.meaning(acc, x, w)), (acc, x, w)


@pytest.mark.parametrize("dot", EMULATED, ids=step_id)
def test_emulated_steps(dot: Step, tmp_path: Path) -> None:
    target, rng = least_target(dot), np.random.default_rng(2)
    skip_without_tools(target)
    cases = [operands(dot, rng) for _ in range(STEPS)]
    calls = [Invocation("step", blobs(dot, *case), 3) for case in cases]
    results = run_emulated(target, backend.object_code(one_step(dot, target), target), calls, tmp_path)
    for case, (found, _) in zip(cases, results, strict=True):
        assert found == dot.meaning(*case).tobytes(), case


def test_sums_wrap() -> None:
    """The meaning itself, at the end of int32."""
    acc = np.full(4, 2**31 - 1, np.int32)
    found = DOT_PRODUCTS[0].meaning(acc, np.ones(4, np.uint8), np.ones((4, 4), np.int8))
    assert found.tolist() == [-(2**31) + 3] * 4
