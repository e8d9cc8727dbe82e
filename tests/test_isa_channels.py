"""Every product of channels computes what its NumPy meaning says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_kernels import Invocation, run_emulated, skip_without_tools
from llvmlite import ir

from qimport.codegen import backend
from qimport.codegen.function import ELEMENTS, I32, KernelFunction
from qimport.codegen.isa.channels import CHANNEL_PRODUCTS, CHANNELS, ChannelProduct
from qimport.codegen.target import Target, target_descriptions, target_named
from qimport.codegen.vector import vector_type
from qimport.ir.graph import Array

STEPS, CASES = 3, 100


def steps_of(product: ChannelProduct, target: Target) -> str:
    """``void total(ptr acc, ptr x, ptr w, ptr result)`` of three steps as LLVM assembly."""
    module = ir.Module()
    fn = KernelFunction(module, "total", 2, target)
    acc = fn.load(fn.operands[0], vector_type(I32, CHANNELS))
    type_ = vector_type(ELEMENTS[product.dtype], CHANNELS * product.group)
    size = type_.count * type_.element.width // 8
    places = (fn.operands[1], fn.tables)
    steps = [tuple(fn.load(fn.at(place, k * size), type_) for place in places) for k in range(STEPS)]
    fn.store(product.total(fn, acc, steps), fn.result)
    fn.finish()
    return str(module)


def operands(product: ChannelProduct, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Sums, activations and weights, mostly at the ends of their ranges."""
    shape = (STEPS, CHANNELS, product.group)
    if product.dtype == "int8":
        x, w = rng.choice([-128, 127, 3], shape), rng.choice([-127, 127, 5], shape)
        if product.in_pairs:
            np.put_along_axis(w, rng.integers(0, STEPS, (1, CHANNELS, 1)), -128, 0)
        else:
            w[w == -127] = -128
    else:
        x, w = rng.choice([-32768, 32767, 3], shape), rng.choice([-255, 255, 5], shape)
    acc = rng.choice([-(2**31), 2**31 - 1, 0], CHANNELS)
    return acc.astype(np.int32), x.astype(product.dtype), w.astype(product.dtype)


@pytest.mark.parametrize("product", CHANNEL_PRODUCTS, ids=lambda product: product.name)
def test_products_of_channels(product: ChannelProduct, tmp_path: Path) -> None:
    targets = map(target_named, target_descriptions())
    target = next(target for target in targets if product.available(target))
    skip_without_tools(target)
    rng = np.random.default_rng(4)
    cases = [operands(product, rng) for _ in range(CASES)]
    calls = [
        Invocation("total", (*(array.tobytes() for array in case), bytes(4 * CHANNELS)), 3) for case in cases
    ]
    results = run_emulated(target, backend.object_code(steps_of(product, target), target), calls, tmp_path)
    for case, (found, _) in zip(cases, results, strict=True):
        assert found == product.meaning(*case).tobytes(), case
