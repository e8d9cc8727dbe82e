"""Random models, compiled, against the interpreter in every numerics mode.

QIMPORT_FUZZ sets the number of models of each size (``make fuzz-ops`` runs many); a seed names one for good.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

import qimport
from qimport.codegen.host import why_not_runnable
from qimport.codegen.target import target_named
from qimport.compiler import trace
from qimport.errors import UnsupportedError
from qimport.ir.graph import Graph
from qimport.ir.text import collect_blobs, parse_graph, print_graph
from qimport.model import CompiledModel
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.oracle import Oracle, OracleRefused
from tests.mixed_graphs import MixedModel
from tests.random_models import RandomModel
from tests.single_op import expect_same

MODELS = int(os.environ.get("QIMPORT_FUZZ", "24"))
TARGETS = [
    name
    for name in ("host", "x86-64", "x86-64-v3", "arm64")
    if name == "host" or why_not_runnable(target_named(name)) is None
]


@pytest.mark.parametrize("seed", range(2 * MODELS))
def test_one_operator(seed: int, oracle: Oracle) -> None:
    compare(RandomModel(seed), 1, seed, oracle)


@pytest.mark.parametrize("seed", range(MODELS))
def test_several_operators(seed: int, oracle: Oracle) -> None:
    compare(RandomModel(10**6 + seed), 3 + seed % 10, seed, oracle)


@pytest.mark.parametrize("seed", range(MODELS))
def test_mixed_element_types(seed: int, oracle: Oracle) -> None:
    """Also state over invocations, control flow, and the text of both graphs.

    What the delegate's runtime refuses to create is the interpreter's own limit: then there are no bytes.
    """
    model = MixedModel(seed)
    file, invocations = model.grow(2 + seed % 14), model.invocations()
    for position, mode in enumerate(X86_NUMERICS):
        target = TARGETS[(seed + position) % len(TARGETS)]
        try:
            wanted = oracle.run_sequence(file, invocations, mode)
        except OracleRefused:
            continue
        compilation = trace(file, target, numerics=mode)
        require_same_text(compilation.imported.graph)
        require_same_text(compilation.prim)
        session = CompiledModel(compilation.artefact()).session()
        for number, inputs in enumerate(invocations):
            found = session.call(inputs)
            for index, pair in enumerate(zip(found, wanted[number], strict=True)):
                what = f"invocation {number}, output {index} of {model.operators} in {mode} for {target}"
                expect_same(*pair, what)


def require_same_text(graph: Graph) -> None:
    """Text, read again, prints the same."""
    text = print_graph(graph)
    assert print_graph(parse_graph(text, collect_blobs(graph))) == text


def compare(model: RandomModel, steps: int, seed: int, oracle: Oracle) -> None:
    """Compile for one target per mode and compare all outputs."""
    file, inputs = model.grow(steps), model.arrays()
    for position, mode in enumerate(X86_NUMERICS):
        target = TARGETS[(seed + position) % len(TARGETS)]
        try:
            compiled = qimport.compile(file, target, numerics=mode)
        except UnsupportedError as error:
            require_no_bytes(error, mode)
            continue
        for arrays in inputs:
            # What the interpreter refuses has no bytes to compare, and is run for its own sake.
            found = compiled.run(arrays)
            with suppress(OracleRefused):
                wanted = oracle.run(file, arrays, mode).outputs
                for index, pair in enumerate(zip(found, wanted, strict=True)):
                    what = f"output {index} of {model.operators} in {mode} for {target}"
                    expect_same(*pair, what)


def require_no_bytes(error: UnsupportedError, mode: Numerics) -> None:
    """Only a mode may refuse these models, never the importer."""
    for reason in error.reasons:
        assert f"(numerics {mode})" in reason.sentence, f"the importer refuses: {error}"
