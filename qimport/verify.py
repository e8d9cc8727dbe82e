"""Comparison of compiled code with the interpreter, byte for byte, and the search for where they part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qimport.arrays import Array
from qimport.cache import user_cache
from qimport.codegen.target import Target
from qimport.compiler import Compilation, Progress, trace
from qimport.errors import ArgumentError
from qimport.ir.graph import Node, Value
from qimport.ir.interpret import interpret
from qimport.model import CompiledModel
from qimport.numerics import MODES, Numerics
from qimport.oracle import Oracle, Resize, random_inputs
from qimport.source import ModelSource


@dataclass(frozen=True)
class Comparison:
    """One tensor for one random input.

    ``index`` is the first differing element, in row-major order; ``units`` is the greatest difference of
    floats, in units in the last place.
    """

    seed: int
    tensor: str
    elements: int
    differing: int
    index: tuple[int, ...] | None = None
    found: Any = None
    expected: Any = None
    units: int | None = None


@dataclass(frozen=True)
class Layer:
    """The first tensor, in the order of the file's operators, that differs from the interpreter's.

    ``stage`` is the first one to differ: ``qnn`` (the specification), ``prim`` (lowering), ``code`` (kernels
    of single operators) or ``fused`` (only the code that keeps no tensor in between differs). ``tensor`` is
    the index in the file, ``operator`` says what computes it.
    """

    stage: str
    tensor: int
    operator: str
    comparison: Comparison


@dataclass(frozen=True)
class Report:
    """All elements of all outputs for every seed, compared as bytes.

    ``layer`` is the first tensor that differs, where every tensor was compared.
    """

    model: str
    numerics: str
    target: str
    interpreter: str
    comparisons: tuple[Comparison, ...]
    layer: Layer | None = None

    @property
    def equal(self) -> bool:
        """Whether every byte that was looked at is the interpreter's."""
        return self.layer is None and not any(item.differing for item in self.comparisons)

    @property
    def elements(self) -> int:
        """How many elements of outputs were compared."""
        return sum(item.elements for item in self.comparisons)

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for ``json.dumps``."""
        return asdict(self) | {"equal": self.equal, "elements": self.elements}


def verify_model(
    model: ModelSource,
    oracle: Oracle,
    *,
    numerics: str = "reference",
    seeds: Sequence[int] = (0, 1, 2),
    target: str | Target = "host",
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int = 1,
    signature: str | None = None,
    per_layer: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Compile ``model`` and compare it with the interpreter in one invocation per seed.

    The invocations follow each other: what a model remembers carries over. With ``per_layer`` every tensor of
    the file is compared as well, up to the first that differs; in a model with state only in the first
    invocation. ``threads``, ``cache`` and ``progress`` are as in :func:`qimport.compile`.

    Raises:
        ArgumentError: tensors of another subgraph than the first shall be compared.
        OracleError: the interpreter is missing, or refuses the model or an input.
        QimportError: as :func:`qimport.compile`.
    """
    compilation = trace(
        model, target, numerics=numerics, batch=batch, shapes=shapes, threads=threads, signature=signature
    )
    if per_layer and compilation.imported.subgraph:
        raise ArgumentError("tensors can be compared only in the first subgraph of a model")
    compiled = CompiledModel(compilation.artefact(user_cache() if cache else None, progress))
    session = compiled.session()
    resize = {position: info.shape for position, info in enumerate(compiled.inputs)}
    sequence = [random_inputs(compiled.inputs, seed) for seed in seeds]
    comparisons: list[Comparison] = []
    layer: Layer | None = None
    answers = _ask(oracle, compilation, sequence, resize)
    for number, (seed, inputs, expected) in enumerate(zip(seeds, sequence, answers, strict=True)):
        found = session.call(inputs)
        results = [
            compare(seed, info.name, ours, theirs)
            for info, ours, theirs in zip(compiled.outputs, found, expected, strict=True)
        ]
        if per_layer and layer is None and not (compiled.state_bytes and number):
            layer = _first_layer(compilation, oracle, inputs, seed, resize) or _fused(compilation, results)
        comparisons += results
    return Report(
        compiled.name,
        compiled.numerics,
        compiled.target.name,
        f"ai-edge-litert {oracle.version}",
        tuple(comparisons),
        layer,
    )


def _ask(
    oracle: Oracle, compilation: Compilation, sequence: Sequence[Sequence[Array]], resize: Resize
) -> list[list[Array]]:
    """What the interpreter gives in successive invocations."""
    numerics, key = compilation.options.numerics, compilation.options.signature
    if key is None or not compilation.imported.subgraph:
        return oracle.run_sequence(compilation.content, sequence, numerics, resize=resize)
    (signature,) = (item for item in compilation.signatures if item.key == key)
    named = [{name: arrays[place] for name, place in signature.inputs.items()} for arrays in sequence]
    answers = oracle.run_signature(compilation.content, key, named, numerics)
    places = {place: name for name, place in signature.outputs.items()}
    return [[answer[places[place]] for place in sorted(places)] for answer in answers]


def compare(seed: int, name: str, found: Array, expected: Array) -> Comparison:
    """Count the elements whose bytes differ: all of them where shape or element type do."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return Comparison(seed, name, expected.size, max(expected.size, 1))
    ours, theirs = (
        np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.itemsize)
        for array in (found, expected)
    )
    wrong = np.flatnonzero((ours != theirs).any(axis=1))
    if not wrong.size:
        return Comparison(seed, name, expected.size, 0)
    index = tuple(int(i) for i in np.unravel_index(wrong[0], expected.shape))
    first = (index, found[index].item(), expected[index].item())
    return Comparison(seed, name, expected.size, int(wrong.size), *first, _units(found, expected))


def _units(found: Array, expected: Array) -> int | None:
    """The greatest distance of two floats, counted in floats; None for other types."""
    if found.dtype.kind != "f":
        return None
    ours, theirs = (_ranks(array) for array in (found, expected))
    return int(np.abs(ours - theirs).max())


def _ranks(array: Array) -> Array:
    """Numbers whose order and distance are those of the floats; both zeros have the same one."""
    codes = array.view(f"i{array.itemsize}")
    magnitudes = np.abs(array).view(codes.dtype).astype(np.float64)
    return np.where(codes < 0, -magnitudes, magnitudes)


def _first_layer(
    compilation: Compilation, oracle: Oracle, inputs: Sequence[Array], seed: int, resize: Resize
) -> Layer | None:
    """The first difference among all tensors that both sides compute."""
    numerics = compilation.options.numerics
    expected = oracle.run(compilation.content, inputs, numerics, resize=resize, tensors=True).tensors
    indices = {value: index for index, value in compilation.imported.tensors.items() if index in expected}
    nodes = [node for node in compilation.imported.graph.nodes if not _unpacked(node, numerics)]
    origins = {value: node.origin for node in nodes for value in node.outputs if value in indices}
    observed = compilation.with_outputs([indices[value] for value in origins])
    stages: dict[str, Callable[[], Sequence[Array]]] = {
        "qnn": lambda: interpret(observed.imported.graph, inputs, numerics),
        "prim": lambda: interpret(observed.prim, inputs),
        "code": lambda: CompiledModel(observed.artefact()).run(list(inputs)),
    }
    for stage, run in stages.items():
        for (value, origin), found in zip(origins.items(), run(), strict=True):
            result = compare(seed, value.name, found, expected[indices[value]])
            if result.differing:
                return Layer(stage, indices[value], origin, result)
    return None


def _unpacked(node: Node, numerics: Numerics) -> bool:
    """Whether the delegate may compute this from constants without ever storing the result."""
    delegate = MODES[numerics].family == "xnnpack"
    return delegate and all(value is None or value.is_constant for value in node.inputs)


def _fused(compilation: Compilation, results: Sequence[Comparison]) -> Layer | None:
    """Outputs differ though no single tensor does: kernels differ only where they are fused."""
    for info, value, result in zip(
        compilation.outputs, compilation.imported.graph.outputs, results, strict=True
    ):
        if result.differing:
            return Layer("fused", info.index, _origin(compilation, value), result)
    return None


def _origin(compilation: Compilation, value: Value) -> str:
    producer = compilation.imported.graph.producers().get(value)
    return producer.origin if producer is not None else "a model input or constant"
