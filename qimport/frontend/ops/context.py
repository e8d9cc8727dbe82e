"""What an operator's importer works with: its tensors, its options, and ways to emit nodes or to refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Protocol

from qimport.errors import ArgumentError, CompilerBug, ModelError, Reason, UnsupportedError, VerifyError
from qimport.frontend.memory import Memory, Variable
from qimport.frontend.model import MAX_TENSOR_BYTES, Operator, Tensor
from qimport.ir.graph import Array, Builder, Graph, Node, Operation, Value
from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.shape import Shape

MAX_FOLDED_ELEMENTS = 1 << 16
"""Shape arithmetic is computed at import up to this size; anything larger is no shape."""

FOLDED_TYPES = ("int32", "int64")
"""Element types of shape arithmetic."""


class RefusedError(Exception):
    """The operator cannot be imported; its reasons are recorded, or lie with an operator before it."""


@dataclass(frozen=True)
class Result:
    """A result of an operator as the file declares it.

    ``value`` carries the element type, quantization and name. ``shape`` is what the file promises, or None
    where it promises nothing: a dimension is -1, or the caller chose other input shapes than the file's.
    """

    value: Value
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Body:
    """A subgraph that control flow runs: what it takes and gives, and the variables it reads and assigns.

    Inputs and outputs are values, or the resource variables whose handles the subgraph passes. ``positions``
    says for each output which input's tensor it is, None where it is another one.
    """

    name: str
    inputs: tuple[Value | Variable, ...]
    outputs: tuple[Value | Variable, ...]
    positions: tuple[int | None, ...]
    nodes: tuple[Node, ...]
    memory: Memory


class BodyImporter(Protocol):
    """Imports another subgraph of the file for given operands."""

    def __call__(
        self, subgraph: int, operands: Sequence[Value | Variable], how: Literal["apart", "once", "inline"]
    ) -> Body:
        """Return the subgraph; raise :class:`UnsupportedError` with every reason where it is refused.

        ``apart`` makes a graph of its own; ``once``, too, but it knows nothing of the variables around it.
        ``inline`` makes it part of the graph around it: its inputs are the operands themselves, and its nodes
        go where the operator's go.
        """


def _no_bodies(
    subgraph: int, operands: Sequence[Value | Variable], how: Literal["apart", "once", "inline"]
) -> Body:
    raise CompilerBug("this import has no other subgraphs")


@dataclass
class OperatorContext:
    """One operator of the file while it is imported.

    Args:
        operator: the operator as read from the file.
        tensors: the tensors of its subgraph as read from the file.
        inputs: its operands, None where optional and absent, and for handles of resources.
        results: its results as declared, without handles of resources.
        builder: receives the nodes.
        unknown: values that depend on unsupported operators; they have the type that the file states.
        reshaped: whether the caller chose input shapes that differ from the file's.
        memory: the variables of the subgraph.
        handles: for each operand the resource variable it is a handle of, None for others.
        bodies: imports another subgraph of the file, see :meth:`import_body`.
    """

    operator: Operator
    tensors: Sequence[Tensor]
    inputs: Sequence[Value | None]
    results: Sequence[Result]
    builder: Builder
    unknown: AbstractSet[Value] = frozenset()
    reshaped: bool = False
    memory: Memory = field(default_factory=Memory)
    handles: Sequence[Variable | None] = ()
    bodies: BodyImporter = _no_bodies
    reasons: list[Reason] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    result_handles: dict[int, Variable] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The operator in messages: ``operator 12 (CONV_2D)``."""
        return f"operator {self.operator.index} ({self.operator.label})"

    # Refusing

    @property
    def depends_on_unknown(self) -> bool:
        """Whether an operand depends on an unsupported operator: its shape is only what the file states."""
        return any(value in self.unknown for value in self.inputs)

    def malformed(self, sentence: str) -> NoReturn:
        """Give up: the file contradicts itself here."""
        if self.depends_on_unknown:
            raise RefusedError
        raise ModelError(f"{self.label}: {sentence}")

    def unsupported(self, sentence: str, tensor: Value | None = None) -> NoReturn:
        """Refuse this operator now, for a reason that makes further checks meaningless."""
        self.require(False, sentence, tensor)
        raise RefusedError

    def require(self, condition: bool, sentence: str, tensor: Value | None = None) -> None:
        """Refuse this operator unless ``condition`` holds, but go on checking it."""
        if not condition:
            name = None if tensor is None else tensor.name
            self.reasons.append(Reason(self.operator.index, self.operator.label, name, sentence))

    def misfit(self, sentence: str, tensor: Value | None = None) -> NoReturn:
        """Shapes do not fit together: through the caller's choice of input shapes, or the file is wrong."""
        if self.reshaped:
            self.unsupported(self._pinned(sentence, tensor), tensor)
        self.malformed(sentence)

    def _pinned(self, sentence: str, tensor: Value | None) -> str:
        """Add to a refusal of the chosen input shapes what the file states, and what to do."""
        stated = None if tensor is None or tensor.is_constant else self.stated_shape(tensor)
        pinned = "its own sizes" if stated is None else f"shape {stated}"
        return (
            f"{sentence}; the file pins {pinned} here: keep its input shapes,"
            " or convert the model with these dimensions open"
        )

    # Reading

    def operands(self, least: int, most: int | None = None, *, results: int = 1) -> None:
        """Check the number of operands and of results."""
        count, most = len(self.inputs), least if most is None else most
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.malformed(f"it has {count} operands; expected {wanted}")
        if len(self.results) != results:
            self.malformed(f"it has {len(self.results)} results; expected {results}")

    @property
    def out(self) -> Value:
        """The only result as declared: element type, quantization and name count, the shape does not."""
        return self.results[0].value

    def input(self, index: int) -> Value:
        """Return a mandatory operand."""
        value = self.optional(index)
        if value is None:
            self.malformed(f"operand {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        """Return an operand that may be absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int, what: str) -> Array:
        """Return the content of an operand that must be known at import; ``what`` names it in the refusal."""
        value = self.input(index)
        if value in self.unknown:
            raise RefusedError
        if value.data is None:
            self.unsupported(f"the {what} is computed at run time; expected a constant", value)
        return value.data

    def integers(self, index: int, what: str, dtypes: Sequence[str] = ("int32",)) -> tuple[int, ...]:
        """Return the content of a constant operand, flattened; ``dtypes`` are what its kernel reads."""
        data = self.constant(index, what)
        if data.dtype.name not in dtypes:
            wanted = " or ".join(dtypes)
            self.unsupported(
                f"the {what} has element type {data.dtype.name}; expected {wanted}", self.input(index)
            )
        return tuple(int(number) for number in data.reshape(-1))

    def stated_axis(self, index: int) -> int:
        """Return the quantized dimension the file states for an operand, even if one scale makes it idle."""
        found = self.tensors[self.operator.inputs[index]].quantization
        return 0 if found is None else found.axis

    def stated_shape(self, value: Value) -> tuple[int, ...] | None:
        """Return the shape the file states for an operand; None if ``value`` is no operand."""
        positions = (index for index, operand in enumerate(self.inputs) if operand is value)
        position = next(positions, None)
        return None if position is None else self.tensors[self.operator.inputs[position]].shape

    def option(self, name: str) -> Any:
        """Return an option by the schema's name."""
        return self.operator.options[name]

    def axis(self, number: int, rank: int) -> int:
        """Return a dimension counted from the front, given one that may count from the back."""
        if not -rank <= number < rank:
            self.malformed(f"dimension {number} does not exist; the rank is {rank}")
        return number + rank if number < 0 else number

    # Variable tensors

    def state(self, index: int) -> Value:
        """Return the present content of an operand that must be a variable tensor."""
        value = self.input(index)
        self._variable(index)
        return value

    def set_state(self, index: int, value: Value) -> None:
        """Let ``value`` be the content of a variable tensor from here on, and at the begin of the next call.

        Its type must be that of :meth:`state`.
        """
        variable = self._variable(index)
        present = self.memory.now[variable].type
        if value.type != present:
            self.unsupported(f"the variable of type {present} would become {value.type}", self.input(index))
        self.memory.now[variable] = value

    def _variable(self, index: int) -> Variable:
        tensor = self.tensors[self.operator.inputs[index]]
        if not tensor.is_variable:
            self.unsupported("expected a variable tensor", self.input(index))
        return Variable(tensor.index)

    # Resource variables and other subgraphs

    def handle(self, index: int) -> Variable:
        """Return the resource variable whose handle an operand is."""
        found = self.handles[index] if index < len(self.handles) else None
        if found is None:
            self.malformed(f"operand {index} is no handle of a variable")
        return found

    def import_body(
        self,
        subgraph: int,
        operands: Sequence[Value | Variable],
        how: Literal["apart", "once", "inline"] = "apart",
    ) -> Body:
        """Import another subgraph of the file; see :class:`BodyImporter`."""
        try:
            return self.bodies(subgraph, operands, how)
        except UnsupportedError as error:
            self.reasons += error.reasons
            raise RefusedError from error

    def give(self, value: Value) -> None:
        """Let a value that exists already be the operator's result."""
        self._check_declared(value.type.shape, len(self.values))
        self.values.append(value)

    def emit_control(
        self, op: Operation, operands: Sequence[Value], bodies: tuple[Graph, ...], results: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Emit a node that runs ``bodies``; it has results of the types and names of ``results``."""
        names = [value.name for value in results]
        try:
            return self.builder.emit_all(op, operands, [value.type for value in results], names, bodies)
        except VerifyError as error:
            self.unsupported(f"{op.NAME}: {error}")

    # Emitting

    def emit(self, op: Operation, inputs: Sequence[Value | None], shape: Sequence[int]) -> None:
        """Emit the operator's result: declared element type and quantization, with the inferred ``shape``."""
        self.emit_results(op, inputs, (shape,))

    def emit_results(
        self, op: Operation, inputs: Sequence[Value | None], shapes: Sequence[Sequence[int]]
    ) -> None:
        """Emit all results of the operator by one node: declared types, with the inferred ``shapes``."""
        declared = [result.value for result in self.results]
        types = [value.type.with_shape(tuple(shape)) for value, shape in zip(declared, shapes, strict=True)]
        for position, type_ in enumerate(types):
            self._check_declared(type_.shape, position)
        self.values += self.steps(op, inputs, types, [value.name for value in declared])

    def check_complete(self) -> None:
        """A function that somebody registered must have given every result, once."""
        given, wanted = len(self.values), len(self.results)
        if self.operator.builtin == "CUSTOM" and given != wanted and not self.reasons:
            raise ArgumentError(
                f"the function registered for {self.operator.custom_code!r} emits {given} results,"
                f" but operator {self.operator.index} has {wanted}"
            )

    def emit_constant(self, data: Array) -> None:
        """Give the operator's result, where it is known: shape arithmetic, done at import."""
        self._check_declared(data.shape)
        self._check_open(self.out.type.with_shape(data.shape), self.out.name)
        self.values.append(Value(self.out.type.with_shape(data.shape), self.out.name, data))

    def step(self, op: Operation, inputs: Sequence[Value | None], type_: TensorType, name: str) -> Value:
        """:meth:`steps` for a node with one result."""
        return self.steps(op, inputs, (type_,), (name,))[0]

    def steps(
        self,
        op: Operation,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        names: Sequence[str],
    ) -> tuple[Value, ...]:
        """Emit a node; raise :class:`RefusedError` if the operator has been refused meanwhile.

        Integer results of constants are computed at once, so shape arithmetic never becomes a node.
        """
        for type_, name in zip(types, names, strict=True):
            self._check_open(type_, name)
        try:
            if all(_folds(op, inputs, type_) for type_ in types):
                return self._fold(op, tuple(inputs), types, names)
            if isinstance(op, QnnOperation) and op.RANKED and self._open_rank:
                op = dataclasses.replace(op, delegable=False)
            return self.builder.emit_all(op, inputs, types, names)
        except VerifyError as error:
            sentence = f"{op.NAME}: {error}"
            tensor = self.results[0].value
            self.unsupported(self._pinned(sentence, tensor) if self.reshaped else sentence, tensor)

    @property
    def _open_rank(self) -> bool:
        """Whether the file states another number of dimensions for an operand than it has."""
        pairs = zip(self.operator.inputs, self.inputs, strict=True)
        return any(
            value is not None and len(self.tensors[index].shape) != len(value.type.shape)
            for index, value in pairs
        )

    def _check_declared(self, shape: tuple[int, ...], position: int = 0) -> None:
        result = self.results[position]
        if not self.reasons and result.shape is not None and result.shape != shape:
            self.malformed(
                f"its result {result.value.name!r} has shape {shape}, but the file says {result.shape}"
            )

    def _check_open(self, type_: TensorType, name: str) -> None:
        """Raise :class:`RefusedError` where there are reasons, or the result is empty or absurdly large."""
        shape, about = type_.shape, self.results[0].value
        self.require(
            min(shape, default=1) > 0, f"the shape {shape} is empty; expected sizes of at least 1", about
        )
        sentence = f"tensor {name!r} of shape {shape} takes {type_.nbytes} bytes; expected less than 2 GiB"
        self.require(type_.nbytes <= MAX_TENSOR_BYTES, sentence, about)
        if self.reasons:
            raise RefusedError

    def _fold(
        self,
        op: Operation,
        inputs: tuple[Value | None, ...],
        types: Sequence[TensorType],
        names: Sequence[str],
    ) -> tuple[Value, ...]:
        results = tuple(Value(type_, name) for type_, name in zip(types, names, strict=True))
        arrays = tuple(None if value is None else value.data for value in inputs)
        call = Node(op, inputs, results, self.builder.origin).call(arrays=arrays)
        op.verify(call)
        for result, data in zip(results, op.evaluate(call), strict=True):
            result.data = data
        return results


def _folds(op: Operation, inputs: Sequence[Value | None], type_: TensorType) -> bool:
    known = isinstance(op, Shape) or all(value is None or value.is_constant for value in inputs)
    return known and type_.dtype in FOLDED_TYPES and type_.size <= MAX_FOLDED_ELEMENTS


OperatorImporter = Callable[[OperatorContext], None]


@dataclass(frozen=True)
class Registration:
    """An importer and the operator versions it covers: those that the interpreter registers.

    ``emits`` is False for operators that only say which value a variable has, and become no node.
    """

    function: OperatorImporter
    versions: range
    emits: bool = True


IMPORTERS: dict[str, Registration] = {}
"""Every operator that can be imported, by builtin name."""


def importer(
    name: str, *, versions: range, emits: bool = True
) -> Callable[[OperatorImporter], OperatorImporter]:
    """Enter a function into :data:`IMPORTERS`."""

    def register(function: OperatorImporter) -> OperatorImporter:
        if name in IMPORTERS:
            raise ValueError(f"operator {name} has two importers")
        IMPORTERS[name] = Registration(function, versions, emits)
        return function

    return register
