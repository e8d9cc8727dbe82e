"""What a model remembers between calls, while it is imported: variable tensors and resource variables.

In the graph a variable is no place but a succession of values; :class:`Memory` knows the present one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from qimport.ir.graph import Array, State, Value
from qimport.ir.types import TensorType


class Variable(NamedTuple):
    """Which variable: a tensor of the subgraph by its index, or a resource by its two names."""

    tensor: int = -1
    container: str = ""
    shared_name: str = ""


@dataclass
class Memory:
    """The variables of one subgraph, in the order in which its operators first touch them.

    ``initial`` is the content of resource variables before the first call, where something assigns it. For a
    subgraph that control flow runs, ``initial`` are the values in the graph around it.
    """

    initial: dict[Variable, Value] = field(default_factory=dict)
    before: dict[Variable, Value] = field(default_factory=dict)
    now: dict[Variable, Value] = field(default_factory=dict)
    contents: dict[Variable, Array] = field(default_factory=dict)

    def define(self, variable: Variable, type_: TensorType, name: str, content: Array) -> None:
        """Enter a variable with the ``content`` it has before the first call, unless it is known."""
        if variable not in self.now:
            self.before[variable] = self.now[variable] = Value(type_, name)
            self.contents[variable] = content

    def read(self, variable: Variable) -> Value | None:
        """The present content of a resource variable; None if nothing has assigned it yet."""
        known = self.initial.get(variable)
        if known is not None:
            self.define(variable, known.type, variable.shared_name, _content(known))
        return self.now.get(variable)

    def assign(self, variable: Variable, value: Value) -> TensorType:
        """Replace the content of a resource variable; return the type that it must have."""
        known = self.initial.get(variable, value)
        same = known.type == value.type
        self.define(variable, value.type, variable.shared_name, _content(known if same else value))
        self.now[variable] = value
        return self.before[variable].type

    def copy(self) -> Memory:
        """All that is known now, for :meth:`restore`."""
        return Memory(dict(self.initial), dict(self.before), dict(self.now), dict(self.contents))

    def restore(self, other: Memory) -> None:
        """Know only what ``other`` knows."""
        self.initial, self.before, self.now, self.contents = (
            other.initial,
            other.before,
            other.now,
            other.contents,
        )

    def resources(self) -> dict[Variable, Value]:
        """The present content of every resource variable that has been assigned."""
        known = {**self.initial, **self.now}
        return {variable: value for variable, value in known.items() if variable.tensor == -1}

    def freeze(self) -> None:
        """Make constants of the variables that keep their content: nothing else assigns them."""
        for variable, before in list(self.before.items()):
            if self.now[variable] is before:
                before.data = self.contents[variable]
                del self.before[variable], self.now[variable], self.contents[variable]

    def states(self) -> tuple[State, ...]:
        """Every variable as a state of the graph."""
        return tuple(
            State(before, self.now[variable], self.contents[variable])
            for variable, before in self.before.items()
        )


def _content(value: Value) -> Array:
    """The content of a constant; zeros for anything else, which nobody reads before it is assigned."""
    return np.zeros(value.type.shape, value.type.numpy) if value.data is None else value.data


def reset_content(type_: TensorType) -> Array:
    """The content of a variable tensor before the first call: the zero point of int8, else zero bytes.

    So the interpreter's ``Subgraph::ResetVariableTensors`` has it, also for uint8 and int16.
    """
    quantization = type_.quantization
    zero = quantization.zero_point if type_.dtype == "int8" and quantization is not None else 0
    return np.full(type_.shape, zero, type_.numpy)
