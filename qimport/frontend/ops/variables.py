"""VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE: which value a resource variable has where.

None of them becomes a node, but for a READ_VARIABLE that changes the quantization. A variable is known by its
container and shared name. Reading one that nothing has assigned is refused: the interpreter fails there, but
for float32 with the XNNPACK delegate, which reads memory that nobody has written.
"""

from __future__ import annotations

import numpy as np

from qimport.frontend.memory import Variable
from qimport.frontend.ops.context import Body, OperatorContext, importer
from qimport.ir.graph import Array, Graph, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.numerics import NUMERICS
from qimport.qnn.reshape import Reshape


@importer("VAR_HANDLE", versions=range(1, 2), emits=False)
def import_var_handle(context: OperatorContext) -> None:
    """Its options name a variable."""
    context.operands(0, results=0)
    if len(context.operator.outputs) != 1:
        context.malformed(f"it has {len(context.operator.outputs)} results; expected 1")
    names = (context.option("container") or "", context.option("shared_name") or "")
    context.result_handles[0] = Variable(-1, *names)


@importer("READ_VARIABLE", versions=range(1, 2), emits=False)
def import_read_variable(context: OperatorContext) -> None:
    """The present content; under another quantization the same codes, as the interpreter copies bytes.

    A file that does that does not load with the XNNPACK delegate.
    """
    context.operands(1)
    variable = context.handle(0)
    value = context.memory.read(variable)
    if value is None:
        context.unsupported(f"the variable {variable.shared_name!r} is read before anything assigns it")
    wanted = context.out.type.with_shape(value.type.shape)
    if value.type.dtype != wanted.dtype:
        context.unsupported(f"the variable holds {value.type}, it is read as {wanted}", context.out)
    if value.type == wanted:
        context.give(value)
    else:
        context.emit(Reshape(), (value,), wanted.shape)


@importer("ASSIGN_VARIABLE", versions=range(1, 2), emits=False)
def import_assign_variable(context: OperatorContext) -> None:
    """The content from here on; a variable keeps its type."""
    context.operands(2, results=0)
    variable, value = context.handle(0), context.input(1)
    type_ = context.memory.assign(variable, value)
    name = variable.shared_name
    context.require(value.type == type_, f"the variable {name!r} of type {type_} becomes {value.type}", value)


@importer("CALL_ONCE", versions=range(1, 2), emits=False)
def import_call_once(context: OperatorContext) -> None:
    """The subgraph that assigns variables before the first call; it runs at import, and only there."""
    context.operands(0, results=0)
    body = context.import_body(context.option("init_subgraph_index"), (), "once")
    assigned = list(body.memory.now)
    for variable, value, data in zip(assigned, body.memory.now.values(), _run(context, body), strict=True):
        if variable in context.memory.now:
            context.unsupported(f"the variable {variable.shared_name!r} is used before it is initialized")
        context.memory.initial[variable] = Value(value.type, variable.shared_name, data)


def _run(context: OperatorContext, body: Body) -> list[Array]:
    """The content that ``body`` assigns, which must not depend on the numerics mode."""
    graph = Graph(body.name, (), tuple(body.memory.now.values()), body.nodes)
    if any(node.bodies for node in graph.nodes):
        context.unsupported("control flow in a subgraph that initializes variables is not supported")
    verify_graph(graph)
    first, *others = (interpret(graph, (), numerics) for numerics in NUMERICS)
    same = all(np.array_equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    context.require(same, "the initial content of variables differs between numerics modes")
    return first
