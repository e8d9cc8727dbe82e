"""IF and WHILE: the subgraphs become graphs inside the node.

What a subgraph reads or assigns of resource variables becomes an operand and a result of the node, so that a
body sees nothing of the graph around it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from qimport import qnn
from qimport.errors import VerifyError
from qimport.frontend.memory import Variable
from qimport.frontend.ops.context import Body, OperatorContext, RefusedError, importer
from qimport.ir.graph import Graph, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.ir.rewrite import remove_dead_nodes

MAX_ROUNDS = 64
MAX_UNROLLED = 1024
"""Rounds of a loop that is unrolled, and the nodes that they become."""


@importer("IF", versions=range(1, 2))
def import_if(context: OperatorContext) -> None:
    """The first operand is the condition; the shapes of both subgraphs' results must agree."""
    operands = _operands(context)
    condition = context.input(0)
    numbers = [context.option(f"{name}_subgraph_index") for name in ("then", "else")]
    then, other = (context.import_body(number, operands[1:]) for number in numbers)
    variables = _variables(context, then, other)
    for ours, theirs in zip(_values(then.outputs), _values(other.outputs), strict=False):
        if ours.type.shape != theirs.type.shape:
            context.unsupported(
                f"a result has shape {ours.type.shape} in one branch and {theirs.type.shape} in the other;"
                " expected the same shape"
            )
    bodies = tuple(_graph(body, body.outputs, variables) for body in (then, other))
    _emit(context, qnn.If(), [condition, *_values(operands[1:])], bodies, then.outputs, variables)


@importer("WHILE", versions=range(1, 2))
def import_while(context: OperatorContext) -> None:
    """A loop; one that this cannot be is unrolled if its end is known and near."""
    operands = _operands(context)
    nodes, memory = len(context.builder.nodes), context.memory.copy()
    try:
        _import_loop(context, operands)
    except RefusedError:
        reasons = list(context.reasons)
        context.reasons.clear()
        if not _unroll(context, operands):
            del context.builder.nodes[nodes:]
            context.memory.restore(memory)
            context.values.clear()
            context.result_handles.clear()
            context.reasons[:] = reasons
            raise


def _import_loop(context: OperatorContext, operands: list[Value | Variable]) -> None:
    """All operands are carried from round to round, and keep their shapes; see :func:`_next_values`."""
    condition = context.import_body(context.option("cond_subgraph_index"), operands)
    body = context.import_body(context.option("body_subgraph_index"), operands)
    variables = _variables(context, condition, body)
    for before, after in zip(_values(operands), _values(body.outputs), strict=False):
        if before.type.shape != after.type.shape:
            context.unsupported(
                f"the loop makes a tensor of shape {after.type.shape} of one of shape {before.type.shape};"
                " expected the same shape",
                before,
            )
    if any(
        condition.memory.now[variable] is not before for variable, before in condition.memory.before.items()
    ):
        context.unsupported("the condition of a loop that assigns variables is not supported")
    following = _next_values(body)
    bodies = _graph(condition, condition.outputs, {}, variables), _graph(body, following, variables)
    _emit(context, qnn.While(), _values(operands), bodies, body.outputs, variables)


def _unroll(context: OperatorContext, values: list[Value | Variable]) -> bool:
    """Emit every round of a loop behind the one before, if constants say how many there are.

    Within a round the counter is a constant, so that it may choose shapes; shapes may change from round to
    round. Returns False, with whatever has been emitted until then, where that cannot be done.
    """
    start = len(context.builder.nodes)
    with contextlib.suppress(RefusedError):
        for _ in range(MAX_ROUNDS + 1):
            again = _known_answer(context, values)
            if again is None or len(context.builder.nodes) - start > MAX_UNROLLED:
                return False
            if not again:
                return _give_all(context, values)
            body = context.import_body(context.option("body_subgraph_index"), values, "inline")
            values = list(_next_values(body))
    return False


def _known_answer(context: OperatorContext, values: list[Value | Variable]) -> bool | None:
    """What the condition of a loop gives for ``values``; None where that is not known at import."""
    before = len(context.builder.nodes)
    condition = context.import_body(context.option("cond_subgraph_index"), values, "inline")
    nodes = tuple(context.builder.nodes[before:])
    del context.builder.nodes[before:]
    answer = condition.outputs[0] if len(condition.outputs) == 1 else None
    if not isinstance(answer, Value) or answer.type.dtype != "bool" or answer.type.size != 1:
        context.malformed("its condition is no single bool")
    try:
        graph = remove_dead_nodes(Graph(condition.name, (), (answer,), nodes))
        verify_graph(graph)
    except VerifyError:  # something is used that only the graph around computes
        return None
    return bool(interpret(graph, ())[0].reshape(-1)[0])


def _give_all(context: OperatorContext, values: list[Value | Variable]) -> bool:
    """Let ``values`` be the operator's results."""
    if len(values) != len(context.operator.outputs):
        context.malformed(f"it has {len(context.operator.outputs)} results; expected {len(values)}")
    for position, value in enumerate(values):
        if isinstance(value, Variable):
            context.result_handles[position] = value
            continue
        declared = context.results[len(context.values)].value
        if value.type != declared.type.with_shape(value.type.shape):
            context.unsupported(f"the loop gives {value.type}", declared)
        context.give(value)
    return True


def _operands(context: OperatorContext) -> list[Value | Variable]:
    """All operands, handles as the variables they stand for."""
    if context.depends_on_unknown:
        raise RefusedError
    count = len(context.inputs)
    return [context.handles[index] or context.input(index) for index in range(count)]


def _next_values(body: Body) -> list[Value | Variable]:
    """What the inputs of a loop's body are in the next round.

    The interpreter copies the body's outputs to its inputs one by one. An output that is itself an input, of
    a smaller position, has then been overwritten: it stands for what that input has become.
    """
    found: list[Value | Variable] = []
    for output, position in zip(body.outputs, body.positions, strict=True):
        overwritten = position is not None and position < len(found)
        found.append(found[position or 0] if overwritten else output)
    return found


def _values(items: Sequence[Value | Variable]) -> list[Value]:
    return [item for item in items if isinstance(item, Value)]


def _variables(context: OperatorContext, *bodies: Body) -> dict[Variable, Value]:
    """The variables that any of ``bodies`` touches, with their present content."""
    found: dict[Variable, Value] = {}
    for variable in (variable for body in bodies for variable in body.memory.before):
        value = context.memory.read(variable)
        if value is None:
            context.unsupported(f"the variable {variable.shared_name!r} is assigned only inside control flow")
        found[variable] = value
    return found


def _graph(
    body: Body,
    outputs: Sequence[Value | Variable],
    variables: dict[Variable, Value],
    read: dict[Variable, Value] | None = None,
) -> Graph:
    """``body`` with ``variables`` as further inputs and outputs, and with ``read`` as further inputs."""
    memory = body.memory
    before = {
        variable: memory.before.get(variable) or Value(value.type, variable.shared_name)
        for variable, value in {**variables, **(read or {})}.items()
    }
    after = [memory.now.get(variable, before[variable]) for variable in variables]
    return Graph(
        body.name, (*_values(body.inputs), *before.values()), (*_values(outputs), *after), body.nodes
    )


def _emit(
    context: OperatorContext,
    op: qnn.If | qnn.While,
    operands: list[Value],
    bodies: tuple[Graph, ...],
    outputs: Sequence[Value | Variable],
    variables: dict[Variable, Value],
) -> None:
    """Emit the node; its results become those of the operator and the new content of the variables."""
    if len(outputs) != len(context.operator.outputs):
        context.malformed(f"it has {len(context.operator.outputs)} results, its subgraph {len(outputs)}")
    for position, item in enumerate(outputs):
        if isinstance(item, Variable):
            context.result_handles[position] = item
    declared = [
        Value(result.value.type.with_shape(output.type.shape), result.value.name)
        for result, output in zip(context.results, _values(outputs), strict=True)
    ]
    kept = [Value(value.type, variable.shared_name) for variable, value in variables.items()]
    results = context.emit_control(op, [*operands, *variables.values()], bodies, [*declared, *kept])
    for value in results[: len(declared)]:
        context.give(value)
    for variable, value in zip(variables, results[len(declared) :], strict=True):
        context.memory.assign(variable, value)
