"""Builds object files from the project's models, links them and runs their example programs."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from conftest import ROOT

from qimport.codegen.aot import interface_of
from qimport.codegen.host import resolve_target
from qimport.codegen.target import Target
from qimport.emission import DEFAULT_KINDS, Emission
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.types import Quantization, TensorType
from qimport.lower.pipeline import lower
from qimport.lower.plan import Plan
from qimport.lower.schedule import make_plan
from qimport.numerics import Numerics
from qimport.qnn.sums import Add

CC, CXX, NM = "gcc", "g++", "nm"
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]


@dataclass(frozen=True)
class Tensor:
    """What the C side needs to know of a tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int | None = None


def tensor(name: str, type_: TensorType) -> Tensor:
    """The description of a tensor of this type."""
    q = type_.quantization
    if q is None:
        return Tensor(name, type_.shape, type_.numpy)
    return Tensor(name, type_.shape, type_.numpy, q.scales, q.zero_points, q.axis)


@functools.cache
def planned(
    model: str, numerics: Numerics, threads: int = 1
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Plan]:
    """Inputs, outputs and plan of one of the project's models."""
    content = (ROOT / "models" / f"{model}.tflite").read_bytes()
    imported = import_model(read_model(content))
    inputs = tuple(tensor(info.name, info.type) for info in imported.inputs)
    outputs = tuple(tensor(info.name, info.type) for info in imported.outputs)
    return inputs, outputs, make_plan(lower(imported.graph, numerics), threads)


def emission(
    model: str,
    target: str,
    kinds: Sequence[str] = DEFAULT_KINDS,
    separate: bool = False,
    name: str | None = None,
    levels: tuple[Target, ...] = (),
) -> Emission:
    """The files of one of the project's models."""
    inputs, outputs, plan = planned(model, "reference")
    api = interface_of(
        name or model, inputs, outputs, plan, resolve_target(target), "reference", levels=levels
    )
    return Emission(api, plan, kinds, separate)


def build(
    directory: Path,
    model: str = "digits_int8_ptq",
    target: str = "host",
    numerics: Numerics = "reference",
    name: str | None = None,
    prefix: str | None = None,
    plan: Plan | None = None,
) -> list[Path]:
    """Write the files of a model, perhaps with another plan of it."""
    inputs, outputs, usual = planned(model, numerics)
    plan = plan or usual
    api = interface_of(name or model, inputs, outputs, plan, resolve_target(target), numerics, prefix)
    return Emission(api, plan).write(directory)


def build_graph(directory: Path, graph: Graph, target: str = "host", name: str = "tiny") -> list[Path]:
    """Write the files of a qnn graph."""
    inputs = [tensor(value.name, value.type) for value in graph.inputs]
    outputs = [tensor(value.name, value.type) for value in graph.outputs]
    plan = make_plan(lower(graph, "reference"))
    api = interface_of(name, inputs, outputs, plan, resolve_target(target), "reference")
    return Emission(api, plan).write(directory)


def sum_of_two(names: Sequence[str] = ("a", "b", "sum")) -> Graph:
    """int8 a + b: one kernel, no arena."""
    types = [TensorType("int8", (3, 5), single_scale(scale)) for scale in (0.021, 0.037, 0.045)]
    a, b = Value(types[0], names[0]), Value(types[1], names[1])
    builder = Builder()
    result = builder.emit(Add("NONE"), (a, b), types[2], name=names[2])
    return Graph("tiny", (a, b), (result,), tuple(builder.nodes))


def single_scale(scale: float) -> Any:
    """A per-tensor quantization."""
    return Quantization((float(np.float32(scale)),), (3,))


def run_tool(*command: str | Path, directory: Path | None = None) -> str:
    """Standard output of a program that must succeed in silence."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout


def link_example(files: Sequence[Path], compiler: str = CC, options: Sequence[str] = ()) -> Path:
    """Compile the example strictly and link it with the object."""
    objects, _, example = files
    program = objects.with_suffix("")
    run_tool(compiler, *STRICT, *options, "-o", program, example, objects)
    return program


def run_example(
    command: Sequence[str | Path],
    inputs: Sequence[Array],
    outputs: Sequence[Tensor],
    more: Sequence[Path] = (),
) -> list[Array]:
    """What the example computes, by files in the folder of the program; ``more`` are named before them."""
    folder = Path(command[-1]).parent
    sources = [folder / f"in {i}.raw" for i in range(len(inputs))]
    results = [folder / f"out {i}.raw" for i in range(len(outputs))]
    for path, array in zip(sources, inputs, strict=True):
        array.tofile(path)
    run_tool(*command, *more, *sources, *results)
    return [
        np.fromfile(path, info.dtype).reshape(info.shape) for path, info in zip(results, outputs, strict=True)
    ]
