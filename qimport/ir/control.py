"""What control flow means in every dialect: a branch and a loop over graphs inside a node."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType


class Branch(Operation):
    """Run one of two graphs on the same operands.

    Operands: condition (one bool), then those of the bodies. Bodies: the graph for True, that for False.

    - C1: there are two bodies, and the condition is one bool.
    - C2: the inputs of each body have the types of the operands behind the condition.
    - C3: the outputs of each body have the types of the results.
    """

    def verify(self, call: Call) -> None:
        """Check the constraints of the class."""
        condition = call.input(0)
        found = (len(call.bodies), condition.dtype, condition.size)
        require(found == (2, "bool", 1), "C1", f"a branch needs two bodies and one bool, not {found}")
        for body in call.bodies:
            _require_types("C2", f"inputs of {body.name}", _types(body.inputs), _operands(call, 1))
            _require_types("C3", f"outputs of {body.name}", _types(body.outputs), call.outputs)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Interpret the bodies."""
        body = call.bodies[0 if call.array(0).reshape(-1)[0] else 1]
        arrays = [call.array(index) for index in range(1, len(call.inputs))]
        return tuple(interpret(body, arrays, call.numerics))


class Loop(Operation):
    """Run a graph on its own results for as long as another graph says so.

    The operands are the first values; the results are the last ones. Bodies: the condition, whose only output
    is one bool, and the graph that gives the next values. Both take all values.

    - C1: there are two bodies, and the condition has one output, a single bool.
    - C2: operands, results, inputs of both bodies and outputs of the second one have the same types.
    """

    def verify(self, call: Call) -> None:
        """Check the constraints of the class."""
        require(len(call.bodies) == 2, "C1", f"a loop needs two bodies, not {len(call.bodies)}")
        condition, body = call.bodies
        found = [(type_.dtype, type_.size) for type_ in _types(condition.outputs)]
        require(found == [("bool", 1)], "C1", f"the condition of a loop must be one bool, not {found}")
        values = _operands(call, 0)
        _require_types("C2", "results of the loop", call.outputs, values)
        _require_types("C2", f"inputs of {condition.name}", _types(condition.inputs), values)
        _require_types("C2", f"inputs of {body.name}", _types(body.inputs), values)
        _require_types("C2", f"outputs of {body.name}", _types(body.outputs), values)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Interpret the bodies."""
        condition, body = call.bodies
        arrays = [call.array(index) for index in range(len(call.inputs))]
        while interpret(condition, arrays, call.numerics)[0].reshape(-1)[0]:
            arrays = interpret(body, arrays, call.numerics)
        return tuple(arrays)


def _operands(call: Call, first: int) -> tuple[TensorType, ...]:
    return tuple(call.input(index) for index in range(first, len(call.inputs)))


def _types(values: Sequence[Value]) -> list[TensorType]:
    return [value.type for value in values]


def _require_types(label: str, what: str, found: Sequence[TensorType], wanted: Sequence[TensorType]) -> None:
    texts = [", ".join(map(str, types)) for types in (found, wanted)]
    require(texts[0] == texts[1], label, f"the {what} are ({texts[0]}), expected ({texts[1]})")
