"""What outlives an invocation: resource variables, and the variable tensor of SVDF."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport.ir.types import TensorType
from tests.mixed_graphs.model import ALL, LARGEST_FED, MixedModel, step
from tests.one_operator.variables import handle
from tests.random_models import DoesNotFit, Tensor

ORDERS = (("read",), ("assign",), ("read", "assign"), ("assign", "read"), ("read", "assign", "read"))


@step(*ALL)
def remember(g: MixedModel, x: Tensor) -> None:
    """Read and assign a variable of this type, a new one or one there is."""
    if g.outer:
        raise DoesNotFit
    known = [name for name, (type_, _) in g.variables.items() if type_ == x.type]
    if known and g.draw.pick(True, False):
        name = g.draw.pick(*known)
    else:
        if not g.variables:
            g.model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
        name = f"v{len(g.variables)}"
        g.variables[name] = x.type, g.values(x.type)
    variable = handle(g.model, name)
    for kind in g.draw.pick(*ORDERS):
        if kind == "read":
            g.emit("READ_VARIABLE", [variable], x.type, limit=LARGEST_FED)
        elif g.limit(x) <= LARGEST_FED or x.type.dtype != "float32":
            g.model.operator("ASSIGN_VARIABLE", [variable, x.index], [])
            g.read.add(x.index)


@step("int8", "float32", weight=2)
def svdf(g: MixedModel, x: Tensor) -> None:
    """SVDF on rows of int8 codes or floats."""
    if not x.type.shape or g.outer or (x.type.dtype == "float32" and g.limit(x) > 1e4):
        raise DoesNotFit
    batch, inputs = x.type.shape[0], x.type.size // x.type.shape[0]
    x = g.emit("RESHAPE", [x, g.integers((batch, inputs))], x.type.with_shape((batch, inputs)))
    units, rank, memory = (int(n) for n in g.draw.rng.integers(1, 5, 3))
    real = x.type.dtype == "float32"
    state = (batch, units * rank * memory)
    if real:
        feature, time = (
            g.constant(TensorType("float32", (units * rank, size))).index for size in (inputs, memory)
        )
        kept = g.model.tensor(state, "float32", is_variable=True)
        out = TensorType("float32", (batch, units))
    else:
        feature = codes(g, (units * rank, inputs), "int8", 0.01)
        time = codes(g, (units * rank, memory), "int16", 0.001)
        kept = g.model.tensor(state, "int16", g.draw.scale(1e-4, 5e-3), is_variable=True)
        out = g.new_type("int8", (batch, units))
    limit = g.limit(x) * inputs * memory * rank * LARGEST_FED**2
    activation = g.draw.pick("NONE", "RELU") if real else "RELU"
    options = {"rank": rank, "fused_activation_function": activation}
    g.emit("SVDF", [x, feature, time, -1, kept], out, limit=limit if real else None, **options)


def codes(g: MixedModel, shape: tuple[int, ...], dtype: str, scale: float) -> int:
    """A constant around zero."""
    top = np.iinfo(dtype).max
    data: Any = g.draw.rng.integers(-top, top + 1, shape)
    return g.model.tensor(shape, dtype, scale, data=data)
