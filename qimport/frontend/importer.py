"""From a TFLite model to a qnn graph: static shapes, one function per operator, every refusal at once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from qimport.errors import ArgumentError, CompilerBug, ModelError, Reason, UnsupportedError, unknown_name
from qimport.frontend.custom import CUSTOM_IMPORTERS
from qimport.frontend.inputs import Shapes, choose_shapes
from qimport.frontend.memory import Memory, Variable, reset_content
from qimport.frontend.model import MAX_TENSOR_BYTES, Model, Operator, Signature, SubGraph, Tensor
from qimport.frontend.ops import IMPORTERS
from qimport.frontend.ops.context import (
    Body,
    OperatorContext,
    OperatorImporter,
    RefusedError,
    Result,
)
from qimport.frontend.unsupported import why_not
from qimport.frontend.values import UnsupportedTensorError, constant_value, tensor_type, value_name
from qimport.ir.graph import Builder, Graph, Value, verify_graph
from qimport.ir.types import TensorType

MAX_BODIES = 256
"""Places where control flow runs a subgraph, each compiled: few subgraphs can run each other very often."""

MAX_DEPTH = 32
"""Subgraphs that run one within the other."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of the model: name and tensor index of the file, type after the choice of shapes.

    ``shape_signature`` is the shape as the file leaves it open: -1 where a dimension may change.
    """

    name: str
    type: TensorType
    index: int
    shape_signature: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Imported:
    """A model as a qnn graph.

    ``tensors`` maps tensor indices of the file to the graph's values, for comparison layer by layer, without
    constants. ``signatures`` are those of the imported subgraph; ``variables`` says what each state of the
    graph is, ``subgraph`` which one of the file was imported.
    """

    graph: Graph
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    signatures: tuple[Signature, ...]
    tensors: Mapping[int, Value]
    variables: tuple[Variable, ...]
    subgraph: int


def import_model(
    model: Model,
    *,
    batch: int | None = None,
    shapes: Shapes | None = None,
    subgraph: int = 0,
    signature: str | None = None,
) -> Imported:
    """Import one subgraph with static shapes.

    Args:
        model: what :func:`qimport.frontend.schema.read_model` returns.
        batch: the size of every leading dimension that the file leaves open; the default is 1, as for every
            other open dimension.
        shapes: whole input shapes by tensor name, signature argument or tensor index; they win over
            ``batch``.
        subgraph: which subgraph to import.
        signature: import the subgraph of this signature instead.

    The shapes of all other tensors are inferred, and shape arithmetic is computed. Where the input shapes are
    those of the file, inferred shapes must be the file's.

    Raises:
        ArgumentError: shapes, batch, subgraph or signature do not exist in the model.
        ModelError: the file contradicts itself.
        UnsupportedError: with every reason, over all operators.
    """
    if signature is not None:
        subgraph = _subgraph_of(model, signature)
    if not 0 <= subgraph < len(model.subgraphs):
        raise ArgumentError(f"the model has no subgraph {subgraph}; it has {len(model.subgraphs)}, from 0 on")
    chosen = model.subgraphs[subgraph]
    signatures = tuple(signature for signature in model.signatures if signature.subgraph == subgraph)
    return _Import(model, (subgraph,), choose_shapes(chosen, signatures, batch, shapes)).run(signatures)


def _subgraph_of(model: Model, key: str) -> int:
    known = {signature.key: signature.subgraph for signature in model.signatures}
    if not known:
        raise ArgumentError(f"there is no signature {key!r}: the model has none")
    if key not in known:
        raise ArgumentError(unknown_name("signature", key, known))
    return known[key]


class _Import:
    """The state of one import: what each tensor of the file has become so far."""

    def __init__(
        self,
        model: Model,
        path: tuple[int, ...],
        input_shapes: Mapping[int, tuple[int, ...]],
        handles: Mapping[int, Variable] | None = None,
        known: Mapping[Variable, Value] | None = None,
    ) -> None:
        """``path`` are the subgraphs that run each other, from the outermost to this one."""
        self.model = model
        self.path = path
        self.subgraph = subgraph = model.subgraphs[path[-1]]
        self.input_shapes = input_shapes
        self.reshaped = any(subgraph.tensors[index].shape != shape for index, shape in input_shapes.items())
        self.builder = Builder()
        self.reasons: list[Reason] = []
        self.values: dict[int, Value] = {}
        self.constants: dict[int, Value] = {}
        self.unknown: set[Value] = set()  # after an unsupported operator: the type is what the file states
        self.lost: set[int] = set()  # after an unsupported operator: not even the type is known
        self.bodies = itertools.count(1)  # of the whole model: bodies continue it
        self.given: Mapping[int, Value] = {}  # inputs that are values of the graph around this one
        self.handles = dict(handles or {})
        self.memory = Memory(dict(known or {}))
        self.writers = _find_writers(subgraph)

    def run(self, signatures: tuple[Signature, ...]) -> Imported:
        if not self.subgraph.outputs:
            raise ModelError("the subgraph has no outputs, expected at least one")
        self._import_operators()
        outputs = [self._output(self.subgraph.tensors[index]) for index in self.subgraph.outputs]
        if self.reasons:
            raise UnsupportedError(self.reasons)
        known = [value for value in outputs if value is not None]
        if not self._assigned_elsewhere():
            self.memory.freeze()
        graph = Graph(
            self.subgraph.name or "main",
            tuple(self.values[index] for index in self.subgraph.inputs),
            tuple(known),
            tuple(self.builder.nodes),
            self.memory.states(),
        )
        verify_graph(graph)
        return Imported(
            graph,
            self._describe(self.subgraph.inputs, graph.inputs),
            self._describe(self.subgraph.outputs, graph.outputs),
            signatures,
            self.values,
            tuple(self.memory.before),
            self.path[-1],
        )

    def run_body(self) -> Body:
        """Import a subgraph that another one runs."""
        self._import_operators()
        outputs: list[Value | Variable] = []
        for index in self.subgraph.outputs:
            found = self.handles.get(index) or self._output(self.subgraph.tensors[index])
            if found is not None:
                outputs.append(found)
        if self.reasons:
            raise UnsupportedError(self.reasons)
        inputs = tuple(self.handles.get(index) or self.values[index] for index in self.subgraph.inputs)
        taken = {index: position for position, index in enumerate(self.subgraph.inputs)}
        return Body(
            self.subgraph.name or f"subgraph_{self.path[-1]}",
            inputs,
            tuple(outputs),
            tuple(taken.get(index) for index in self.subgraph.outputs),
            tuple(self.builder.nodes),
            self.memory,
        )

    def _import_operators(self) -> None:
        for index in self.subgraph.inputs:
            if index not in self.handles:
                self._define_input(self.subgraph.tensors[index])
        for operator in self.subgraph.operators:
            self._check_operands(operator)
            self._import_operator(operator)

    def _import_body(
        self, subgraph: int, operands: Sequence[Value | Variable], how: Literal["apart", "once", "inline"]
    ) -> Body:
        """Import another subgraph as something that this one runs on ``operands``."""
        if not 0 <= subgraph < len(self.model.subgraphs):
            raise ModelError(f"there is no subgraph {subgraph} to run")
        if subgraph in self.path:
            raise ModelError(f"subgraph {subgraph} runs itself")
        if len(self.path) > MAX_DEPTH:
            sentence = f"it is run more than {MAX_DEPTH} subgraphs deep"
            raise UnsupportedError([Reason(None, f"subgraph {subgraph}", None, sentence)])
        indices = self.model.subgraphs[subgraph].inputs
        if len(indices) != len(operands):
            raise ModelError(
                f"subgraph {subgraph} has {len(indices)} inputs, but it is run on {len(operands)} operands"
            )
        pairs = list(zip(indices, operands, strict=True))
        values = {index: operand for index, operand in pairs if isinstance(operand, Value)}
        shapes = {index: value.type.shape for index, value in values.items()}
        handles = {index: operand for index, operand in pairs if isinstance(operand, Variable)}
        known = {} if how == "once" else self.memory.resources()
        inner = _Import(self.model, (*self.path, subgraph), shapes, handles, known)
        inner.bodies = self.bodies
        if how == "inline":
            inner.builder, inner.memory, inner.given = self.builder, self.memory, values
        if next(self.bodies) > MAX_BODIES:
            sentence = f"it would be compiled for more than {MAX_BODIES} places that run subgraphs"
            raise UnsupportedError([Reason(None, f"subgraph {subgraph}", None, sentence)])
        try:
            return inner.run_body()
        except UnsupportedError as error:
            reasons = [replace(reason, op=f"{reason.op} of subgraph {subgraph}") for reason in error.reasons]
            raise UnsupportedError(reasons) from error
        except ModelError as error:
            raise ModelError(f"subgraph {subgraph}: {error}") from error

    def _assigned_elsewhere(self) -> bool:
        """Whether a variable may be assigned by a subgraph that does not belong to this one."""
        own = {self.path[-1]}
        for operator in self.subgraph.operators:
            own.update(value for key, value in operator.options.items() if key.endswith("subgraph_index"))
        others = (graph for number, graph in enumerate(self.model.subgraphs) if number not in own)
        return any(operator.builtin == "ASSIGN_VARIABLE" for graph in others for operator in graph.operators)

    def _describe(self, indices: Sequence[int], values: Sequence[Value]) -> tuple[TensorInfo, ...]:
        tensors = [self.subgraph.tensors[index] for index in indices]
        return tuple(
            TensorInfo(tensor.name, value.type, tensor.index, tensor.shape_signature)
            for tensor, value in zip(tensors, values, strict=True)
        )

    # Tensors

    def _define_input(self, tensor: Tensor) -> None:
        if tensor.index in self.values:
            raise ModelError(f"tensor {tensor.name!r} is listed twice as an input of the model")
        try:
            if tensor.raw is not None:
                raise UnsupportedTensorError("it holds a constant; expected an input without content")
            if tensor.is_variable:
                raise UnsupportedTensorError("it is a variable tensor; expected one that the caller fills")
            shape = self.input_shapes[tensor.index]
            _require_elements(shape)
            type_ = tensor_type(tensor, shape)
            value = self.given.get(tensor.index, Value(type_, value_name(tensor)))
            if value.type != type_:
                raise UnsupportedTensorError(f"it is {type_}, but {value.type} is what it gets")
            self.values[tensor.index] = value
        except UnsupportedTensorError as error:
            self._lose(tensor, Reason(None, "model input", tensor.name, str(error)))

    def _lose(self, tensor: Tensor, reason: Reason) -> None:
        self.reasons.append(reason)
        self.lost.add(tensor.index)

    def _output(self, tensor: Tensor) -> Value | None:
        """Return the value of a model output; None if an operator before it is unsupported."""
        if tensor.index in self.values:
            return self.values[tensor.index]
        if tensor.index in self.lost:
            return None
        try:
            value = self._variable(tensor) if tensor.is_variable else self._constant(tensor)
        except UnsupportedTensorError as error:
            self._lose(tensor, Reason(None, "model output", tensor.name, str(error)))
            return None
        if value is None:
            raise ModelError(f"the model output {tensor.name!r} is neither computed nor a constant")
        if not value.type.size:
            self._lose(
                tensor, Reason(None, "model output", tensor.name, f"the shape {value.type.shape} is empty")
            )
        return value

    def _constant(self, tensor: Tensor) -> Value | None:
        if tensor.index not in self.constants:
            value = constant_value(tensor)
            if value is None:
                return None
            self.constants[tensor.index] = value
        return self.constants[tensor.index]

    def _variable(self, tensor: Tensor) -> Value:
        """Return the present content of a variable tensor."""
        variable = Variable(tensor.index)
        if variable not in self.memory.now:
            if tensor.raw is not None:
                raise UnsupportedTensorError("it is a variable with content in the file; expected none")
            if len(self.path) > 1:
                raise UnsupportedTensorError("variable tensors inside control flow are not supported")
            type_ = tensor_type(tensor, tensor.shape)
            _require_elements(tensor.shape)
            if type_.nbytes > MAX_TENSOR_BYTES:
                raise UnsupportedTensorError(f"it takes {type_.nbytes} bytes; expected less than 2 GiB")
            self.memory.define(variable, type_, value_name(tensor), reset_content(type_))
        return self.memory.now[variable]

    # Operators

    def _check_operands(self, operator: Operator) -> None:
        """Refuse a file whose operator reads what only a later one computes, or what has no content.

        Custom operators may keep scratch memory in a tensor without content.
        """
        for index in operator.inputs:
            if index == -1 or index in self.values or index in self.lost or index in self.handles:
                continue
            if self.subgraph.tensors[index].is_variable:
                continue
            tensor, writer = self.subgraph.tensors[index], self.writers.get(index)
            where = f"operator {operator.index} ({operator.builtin}) reads tensor {tensor.name!r}"
            if writer is not None:
                raise ModelError(
                    f"{where} before operator {writer.index} ({writer.builtin}) computes it,"
                    " expected operators in the order of execution"
                )
            filled = tensor.raw is not None or tensor.external_buffer or 0 in tensor.shape
            if not filled and operator.builtin != "CUSTOM":
                raise ModelError(f"{where}, which no operator computes and which has no content")

    def _import_operator(self, operator: Operator) -> None:
        values: list[Value] = []
        with contextlib.suppress(RefusedError):
            values = self._run_importer(operator)
        plain = [index for index in operator.outputs if index not in self.handles]
        for position, index in enumerate(plain):
            tensor = self.subgraph.tensors[index]
            if position >= len(values):
                self._stand_in(tensor)
                continue
            try:
                self._store(tensor, values[position])
            except UnsupportedTensorError as error:
                with contextlib.suppress(RefusedError):
                    self._refuse(operator, str(error), tensor)

    def _store(self, tensor: Tensor, value: Value) -> None:
        """Let ``value`` be what ``tensor`` holds from here on."""
        if not tensor.is_variable:
            self.values[tensor.index] = value
            return
        if tensor.shape != value.type.shape or self._variable(tensor).type != value.type:
            raise ModelError(
                f"the variable tensor {tensor.name!r} becomes {value.type}, expected its own type"
            )
        self.memory.now[Variable(tensor.index)] = value

    def _run_importer(self, operator: Operator) -> list[Value]:
        function = self._find_importer(operator)
        name = self.subgraph.tensors[operator.outputs[0]].name if operator.outputs else ""
        self.builder.origin = f"operator {operator.index} ({operator.label}) {name!r}"
        context = OperatorContext(
            operator=operator,
            tensors=self.subgraph.tensors,
            inputs=[
                None if index == -1 or index in self.handles else self._operand(operator, index)
                for index in operator.inputs
            ],
            results=[self._result(operator, i) for i in operator.outputs if not self._is_resource(i)],
            builder=self.builder,
            unknown=self.unknown,
            reshaped=self.reshaped,
            memory=self.memory,
            handles=[self.handles.get(index) for index in operator.inputs],
            bodies=self._import_body,
        )
        try:
            function(context)
            context.check_complete()
            for position, variable in context.result_handles.items():
                self.handles[operator.outputs[position]] = variable
        finally:
            self.reasons += context.reasons
        if context.depends_on_unknown:
            self.unknown.update(value for value in context.values if not value.is_constant)
        return context.values

    def _is_resource(self, index: int) -> bool:
        return self.subgraph.tensors[index].dtype == "resource"

    def _find_importer(self, operator: Operator) -> OperatorImporter:
        """Return the operator's importer; refuse operators and versions that have none."""
        custom = operator.builtin == "CUSTOM"
        if custom and operator.custom_code in CUSTOM_IMPORTERS:
            return CUSTOM_IMPORTERS[operator.custom_code]
        registration = IMPORTERS.get(operator.builtin)
        if registration is not None:
            versions = registration.versions
            if operator.version in versions:
                return registration.function
            self._refuse(
                operator, f"version {operator.version} is not supported; expected 1 to {versions[-1]}"
            )
        self._refuse(operator, why_not(operator))

    def _refuse(self, operator: Operator, sentence: str, tensor: Tensor | None = None) -> NoReturn:
        self.reasons.append(
            Reason(operator.index, operator.label, None if tensor is None else tensor.name, sentence)
        )
        raise RefusedError

    def _operand(self, operator: Operator, index: int) -> Value:
        """Return the value of an operand; give no reason of its own where an earlier operator is at fault."""
        if index in self.values:
            return self.values[index]
        if index in self.lost:
            raise RefusedError
        tensor = self.subgraph.tensors[index]
        try:
            value = self._variable(tensor) if tensor.is_variable else self._constant(tensor)
        except UnsupportedTensorError as error:
            self._refuse(operator, str(error), tensor)
        if value is None:
            raise CompilerBug(f"operand {tensor.name!r} of operator {operator.index} was not checked")
        return value

    def _result(self, operator: Operator, index: int) -> Result:
        tensor = self.subgraph.tensors[index]
        try:
            type_ = tensor_type(tensor, tensor.shape)
        except UnsupportedTensorError as error:
            self._refuse(operator, str(error), tensor)
        promised = not self.reshaped and -1 not in tensor.shape_signature and min(tensor.shape, default=0) > 0
        return Result(Value(type_, value_name(tensor)), tensor.shape if promised else None)

    def _stand_in(self, tensor: Tensor) -> None:
        """After an unsupported operator: the type that the file states serves to check what follows."""
        if not self.reshaped and min(tensor.shape, default=0) > 0:
            with contextlib.suppress(UnsupportedTensorError):
                value = Value(tensor_type(tensor, tensor.shape), value_name(tensor))
                self.values[tensor.index] = value
                self.unknown.add(value)
                return
        self.lost.add(tensor.index)


def _require_elements(shape: tuple[int, ...]) -> None:
    if min(shape, default=1) < 1:
        raise UnsupportedTensorError(f"the shape {shape} is empty; expected sizes of at least 1")


def _find_writers(subgraph: SubGraph) -> dict[int, Operator]:
    """Map tensors to the operator that computes them: one at most, and none for inputs and constants."""
    writers: dict[int, Operator] = {}
    for operator in subgraph.operators:
        for index in operator.outputs:
            tensor = subgraph.tensors[index]
            where = f"operator {operator.index} ({operator.builtin}) computes tensor {tensor.name!r}"
            if index in writers:
                other = writers[index]
                raise ModelError(f"{where}, which operator {other.index} ({other.builtin}) computes already")
            if index in subgraph.inputs or tensor.raw is not None:
                kind = "an input of the model" if index in subgraph.inputs else "a constant"
                raise ModelError(f"{where}, which is {kind}")
            writers[index] = operator
    return writers
