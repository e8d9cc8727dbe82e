"""The way from a .tflite file to a compiled model, as one call and stage by stage.

Stages are imported where they are first needed: a model from the cache takes none of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

from qimport.artefact import Artefact, SignatureInfo, StateInfo, TensorInfo, aligned_copy
from qimport.cache import Cache, fingerprint, user_cache
from qimport.codegen.backend import LLVM_VERSION, ObjectWriter, Progress, assembly
from qimport.codegen.host import resolve_target
from qimport.codegen.target import Target
from qimport.errors import ArgumentError, unknown_name
from qimport.frontend.custom import foreign_importers
from qimport.frontend.inputs import Shapes
from qimport.ir.graph import Graph
from qimport.model import CompiledModel
from qimport.numerics import NUMERICS, Numerics
from qimport.source import Content, ModelSource, read_source

if TYPE_CHECKING:
    from qimport.codegen.program import Program
    from qimport.frontend import importer
    from qimport.frontend.importer import Imported
    from qimport.frontend.model import Model
    from qimport.lower.plan import Plan

MOST_THREADS = 256
"""Of one call: more parts of a kernel would only be waited for."""

STAGES = ("qnn", "prim", "plan", "llvm", "asm")
"""What :meth:`Compilation.text` prints."""

_STAGES_BEFORE_CODE = {"reading": "model", "importing": "imported", "lowering": "prim", "planning": "plan"}


@dataclass(frozen=True)
class Options:
    """How a model is compiled; see :func:`compile`."""

    target: Target
    numerics: Numerics = "reference"
    batch: int | None = None
    shapes: Shapes = field(default_factory=dict)
    subgraph: int = 0
    signature: str | None = None
    threads: int = 1


class Compilation:
    """Every stage of compiling one model, each computed when it is first asked for.

    ``content`` is the file and ``source`` its path, empty where there is none; ``kept`` are the tensors that
    :meth:`with_outputs` chose. What each stage raises stands at :func:`compile`.
    """

    def __init__(
        self, content: Content, source: str, options: Options, kept: tuple[int, ...] | None = None
    ) -> None:
        self.content = content
        self.source = source
        self.options = options
        self.kept = kept

    @cached_property
    def model(self) -> Model:
        """The file as it is."""
        from qimport.frontend.schema import read_model

        return read_model(self.content, source=self.source or "model")

    @cached_property
    def imported(self) -> Imported:
        """The qnn graph, and which tensor of the file each of its values is."""
        from qimport.frontend.importer import import_model

        options = self.options
        return import_model(
            self.model,
            batch=options.batch,
            shapes=options.shapes,
            subgraph=options.subgraph,
            signature=options.signature,
        )

    @cached_property
    def prim(self) -> Graph:
        """Integer operations in the numerics mode."""
        from qimport.lower.pipeline import lower

        return lower(self.imported.graph, self.options.numerics)

    @cached_property
    def split_plan(self) -> Plan:
        """Kernel calls over one arena, the heavy ones in parts where there shall be several threads."""
        from qimport.lower.schedule import make_plan

        return make_plan(self.prim, self.options.threads)

    @cached_property
    def plan(self) -> Plan:
        """The same with calls joined of which threads can compute their parts without waiting."""
        from qimport.lower.joining import join_calls

        return join_calls(self.split_plan)

    @cached_property
    def program(self) -> Program:
        """LLVM code and packed constants for the target."""
        from qimport.codegen.program import generate

        return generate(self.plan, self.options.target)

    @property
    def name(self) -> str:
        """Name of the file without its suffix, or of the graph where there is no file."""
        return Path(self.source).stem or self.imported.graph.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs in the order of the file."""
        return tuple(map(_tensor_info, self.imported.inputs))

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs in the order of the file."""
        return tuple(map(_tensor_info, self.imported.outputs))

    @property
    def signatures(self) -> tuple[SignatureInfo, ...]:
        """Named ways to call the imported subgraph."""
        inputs = {info.index: position for position, info in enumerate(self.imported.inputs)}
        outputs = {info.index: position for position, info in enumerate(self.imported.outputs)}
        return tuple(
            SignatureInfo(
                signature.key,
                {name: inputs[index] for name, index in signature.inputs.items() if index in inputs},
                {name: outputs[index] for name, index in signature.outputs.items() if index in outputs},
            )
            for signature in self.imported.signatures
        )

    @property
    def without_code(self) -> Artefact:
        """What is known of the artefact before there is code: no rows, entry, object and constants."""
        return Artefact(
            name=self.name,
            numerics=self.options.numerics,
            target=self.options.target,
            inputs=self.inputs,
            outputs=self.outputs,
            signatures=self.signatures,
            states=tuple(
                StateInfo(state.name, state.type.dtype, state.type.shape, state.offset)
                for state in self.plan.states
            ),
            arena_bytes=self.plan.arena_bytes,
            threads=self.plan.threads,
            plan=str(self.plan),
            rows=(),
            entry="",
            object_code=b"",
            constants=aligned_copy(b""),
            initial_state=aligned_copy(self.plan.initial_state),
        )

    def with_outputs(self, tensors: Sequence[int]) -> Compilation:
        """The same model with computed tensors of the file, given by index, as its only outputs."""
        from qimport.frontend import importer

        imported = self.imported
        values = [imported.tensors[index] for index in tensors]
        infos = [
            importer.TensorInfo(value.name, value.type, index, value.type.shape)
            for index, value in zip(tensors, values, strict=True)
        ]
        other = Compilation(self.content, self.source, self.options, tuple(tensors))
        other.imported = replace(
            imported,
            graph=replace(imported.graph, outputs=tuple(values)),
            outputs=tuple(infos),
            signatures=(),
        )
        return other

    def text(self, stage: str) -> str:
        """One of :data:`STAGES` as text.

        Raises:
            ArgumentError: there is no such stage.
        """
        if stage not in STAGES:
            raise ArgumentError(unknown_name("stage", stage, STAGES))
        from qimport.ir.text import print_graph

        if stage == "qnn":
            return print_graph(self.imported.graph)
        if stage == "prim":
            return print_graph(self.prim)
        if stage == "plan":
            return str(self.plan)
        modules = self.program.modules
        return "\n".join(modules) if stage == "llvm" else assembly(modules, self.options.target)

    def _report_stages(self, progress: Progress) -> None:
        """Go through the stages before code, which are quick beside it."""
        for part, (sentence, stage) in enumerate(_STAGES_BEFORE_CODE.items()):
            progress(sentence, part / 20)
            getattr(self, stage)

    @property
    def key(self) -> str:
        """Names the artefact: equal keys, equal bytes."""
        content = hashlib.sha256(self.content).hexdigest()
        return fingerprint(content, Path(self.source).stem, self.options, self.kept, LLVM_VERSION)

    def artefact(self, cache: Cache | None = None, progress: Progress | None = None) -> Artefact:
        """Everything that running needs, from the cache where it is there, and kept in it."""
        if foreign_importers():  # the key does not know what operators of others are compiled to
            cache = None
        key = self.key if cache is not None else ""
        found = cache.find(key) if cache is not None else None
        if found is None:
            found = self._compile(progress)
            if cache is not None:
                cache.store(key, found)
        if progress is not None:
            progress("done", 1.0)
        return found

    def _compile(self, progress: Progress | None) -> Artefact:
        from qimport.codegen.program import generate

        if progress is not None:
            self._report_stages(progress)
        with ObjectWriter(self.options.target, progress) as writer:
            self.program = generate(self.plan, self.options.target, ready=writer.add)
            object_code = writer.finish(str(self.program.module))
        return replace(
            self.without_code,
            rows=self.program.rows,
            entry=self.program.entry,
            object_code=object_code,
            constants=aligned_copy(self.program.constants),
        )


def compile(  # noqa: A001 - the public name
    model: ModelSource,
    target: str | Target = "host",
    *,
    numerics: str = "reference",
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int = 1,
    subgraph: int = 0,
    signature: str | None = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a quantized TensorFlow Lite model.

    Args:
        model: a path, or the content of a .tflite file.
        target: ``host``, a name that ``qimport targets`` lists, or a :class:`Target`.
        numerics: whose bytes the outputs equal: ``reference`` (the interpreter's reference kernels),
            ``builtin`` (its optimized kernels without a delegate) or ``xnnpack`` (the interpreter's default).
        batch: size of every leading dimension that the file leaves open; 1 by default.
        shapes: whole input shapes by tensor name or signature argument.
        threads: how many threads a call may use. The bytes are those of one thread. Calls that run at the
            same time share one pool of threads, which one of them gets. Small models use one thread only.
        subgraph: which subgraph of the file.
        signature: compile the subgraph of this signature instead.
        cache: look for the compiled model in the user's cache folder, and keep it there.
        progress: called now and then with what is being done and which part of all work is behind it, 0 to 1.

    Raises:
        ArgumentError: an argument names nothing or is no such number, or the file cannot be read.
        ModelError: the file is malformed.
        UnsupportedError: with every reason.
        TargetError: an unknown target.
    """
    compilation = trace(
        model,
        target,
        numerics=numerics,
        batch=batch,
        shapes=shapes,
        threads=threads,
        subgraph=subgraph,
        signature=signature,
    )
    content, source, options = compilation.content, compilation.source, compilation.options
    return CompiledModel(
        compilation.artefact(user_cache() if cache else None, progress),
        lambda stage: Compilation(content, source, options).text(stage),
    )


def trace(
    model: ModelSource,
    target: str | Target = "host",
    *,
    numerics: str = "reference",
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int = 1,
    subgraph: int = 0,
    signature: str | None = None,
) -> Compilation:
    """The stages of :func:`compile`; nothing but the arguments is looked at yet."""
    if not isinstance(batch, Integral | None):
        raise ArgumentError(f"batch is {batch!r}; expected a whole number")
    if not isinstance(threads, int | Integral) or not 1 <= threads <= MOST_THREADS:
        raise ArgumentError(f"threads is {threads!r}; expected a whole number from 1 to {MOST_THREADS}")
    if not isinstance(shapes, Mapping | None):
        raise ArgumentError(f"shapes is {shapes!r}; expected a mapping from names to sizes")
    content, source = read_source(model)
    mode, sizes = check_numerics(numerics), dict(shapes or {})
    options = Options(resolve_target(target), mode, batch, sizes, subgraph, signature, int(threads))
    return Compilation(content, source, options)


def check_numerics(name: str) -> Numerics:
    """``name``, if it is a numerics mode; raises :class:`ArgumentError` with the nearest one."""
    if name not in NUMERICS:
        raise ArgumentError(unknown_name("numerics mode", name, NUMERICS))
    return name


def _tensor_info(info: importer.TensorInfo) -> TensorInfo:
    return TensorInfo(info.name, info.index, info.type, info.shape_signature)


__all__ = ["STAGES", "Compilation", "Options", "Progress", "compile", "trace"]
