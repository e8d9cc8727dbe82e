"""Generators of models that remember: resource variables and variable tensors over successive invocations."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from qimport.numerics import Numerics
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.single_op import quantized

INVOCATIONS = 4


def some_type(draw: Draw, dtype: str, shape: tuple[int, ...]) -> TensorType:
    """A type of this element type, quantized where it can be."""
    if dtype in ("int8", "uint8"):
        return quantized(dtype, shape, draw.scale(), draw.zero_point(dtype))
    return TensorType(dtype, shape)


def some_values(draw: Draw, type_: TensorType) -> Array:
    """Values whose sums stay exact."""
    low, high = (0, 256) if type_.dtype == "uint8" else (-128, 128)
    return np.asarray(draw.rng.integers(low, high, type_.shape).astype(type_.numpy))


def some_shape(draw: Draw) -> tuple[int, ...]:
    """One to three dimensions."""
    return tuple(int(draw.pick(1, 2, 3, 7)) for _ in range(draw.pick(1, 2, 3)))


def handle(model: ModelBuilder, name: str) -> int:
    """The handle of the variable ``name``."""
    index = model.tensor((), "resource", name=f"handle of {name}")
    model.operator("VAR_HANDLE", [], [index], container="", shared_name=name)
    return index


def read(model: ModelBuilder, variable: int, type_: TensorType) -> int:
    """The content of a variable."""
    index = add_tensor(model, type_)
    model.operator("READ_VARIABLE", [variable], [index])
    return index


def initialize(model: ModelBuilder, contents: dict[str, tuple[TensorType, Array]]) -> None:
    """Fill the subgraph that has just been begun with assignments."""
    for name, (type_, data) in contents.items():
        model.operator("ASSIGN_VARIABLE", [handle(model, name), add_tensor(model, type_, data)], [])


def add(model: ModelBuilder, a: int, b: int, type_: TensorType) -> int:
    """a + b, in the type of both."""
    out = add_tensor(model, type_)
    model.operator("ADD", [a, b], [out], fused_activation_function="NONE")
    return out


def feed(draw: Draw, type_: TensorType) -> tuple[list[Array], ...]:
    """One input per invocation."""
    return tuple([some_values(draw, type_)] for _ in range(INVOCATIONS))


def sum_variable(draw: Draw, dtype: str) -> OneOperator:
    """A running sum; the result is the content before or after."""
    type_ = some_type(draw, dtype, some_shape(draw))
    model = ModelBuilder()
    x = add_tensor(model, type_)
    model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    variable = handle(model, "sum")
    before = read(model, variable, type_)
    after = add(model, before, x, type_)
    model.operator("ASSIGN_VARIABLE", [variable, after], [])
    outputs = draw.pick([before], [after], [before, after], [read(model, variable, type_)])
    model.next_subgraph([x], outputs)
    initialize(model, {"sum": (type_, some_values(draw, type_))})
    return OneOperator(model.build([], []), feed(draw, type_), f"running sum of {type_}")


def shift_register(draw: Draw, dtype: str) -> OneOperator:
    """The last few inputs behind each other, along any axis, as streaming models keep them."""
    frame = some_shape(draw)
    axis, keep = int(draw.rng.integers(len(frame))), int(draw.pick(1, 2, 5))

    def extended(count: int) -> tuple[int, ...]:
        return (*frame[:axis], count, *frame[axis + 1 :])

    type_ = some_type(draw, dtype, frame)
    kept, whole = type_.with_shape(extended(keep)), type_.with_shape(extended(keep + frame[axis]))
    model = ModelBuilder()
    x = add_tensor(model, type_)
    model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    variable = handle(model, "past")
    both = add_tensor(model, whole)
    model.operator("CONCATENATION", [read(model, variable, kept), x], [both], axis=axis)
    begin = [frame[axis] if i == axis else 0 for i in range(len(frame))]
    rest = add_tensor(model, kept)
    bounds = [begin, list(whole.shape), [1] * len(frame)]
    operands = [model.tensor((len(frame),), "int32", data=np.array(bound)) for bound in bounds]
    model.operator("STRIDED_SLICE", [both, *operands], [rest])
    model.operator("ASSIGN_VARIABLE", [variable, rest], [])
    model.next_subgraph([x], [both])
    initialize(model, {"past": (kept, some_values(draw, kept))})
    return OneOperator(model.build([], []), feed(draw, type_), f"{keep} of {type_} along {axis}")


@generator("READ_VARIABLE with another quantization")
def reinterpreted(draw: Draw) -> OneOperator:
    """The same codes under another scale."""
    shape, dtype = some_shape(draw), draw.dtype()
    written, found = some_type(draw, dtype, shape), some_type(draw, dtype, shape)
    model = ModelBuilder()
    x, variable, y = add_tensor(model, written), handle(model, "memory"), model.tensor(shape, "float32")
    model.operator("ASSIGN_VARIABLE", [variable, x], [])
    model.operator("DEQUANTIZE", [read(model, variable, found)], [y], 2)
    file = model.build([x], [y])
    return OneOperator(file, feed(draw, written), f"{written} as {found}", modes=("reference", "builtin"))


def swap(draw: Draw, dtype: str) -> OneOperator:
    """Variables that take each other's content, one of them that of the input."""
    type_ = some_type(draw, dtype, some_shape(draw))
    names = ["a", "b", "c"][: draw.pick(2, 3)]
    model = ModelBuilder()
    x = add_tensor(model, type_)
    model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    variables = [handle(model, name) for name in names]
    contents = [read(model, variable, type_) for variable in variables]
    order = draw.rng.permutation(len(names))
    sources = [contents[i] for i in order]
    sources[int(draw.rng.integers(len(names)))] = draw.pick(x, contents[0])
    for variable, source in zip(variables, sources, strict=True):
        model.operator("ASSIGN_VARIABLE", [variable, source], [])
    model.next_subgraph([x], [add(model, contents[0], contents[-1], type_), contents[-1]])
    initialize(model, {name: (type_, some_values(draw, type_)) for name in names})
    return OneOperator(model.build([], []), feed(draw, type_), f"{len(names)} of {type_} by {order}")


def variable_tensor(draw: Draw, dtype: str) -> OneOperator:
    """A variable tensor that one operator reads and a later one writes.

    No converter writes such files, and the delegate takes both operators without knowing what a variable is.
    """
    type_ = some_type(draw, dtype, some_shape(draw))
    q = type_.quantization
    scale, zero = (None, 0) if q is None else (list(q.scales), list(q.zero_points))
    model = ModelBuilder()
    x = add_tensor(model, type_)
    kept = model.tensor(type_.shape, dtype, scale, zero, name="kept", is_variable=True)
    result = add(model, x, kept, type_)
    shape = model.tensor((len(type_.shape),), "int32", data=np.array(type_.shape))
    model.operator("RESHAPE", [x, shape], [kept])
    modes: tuple[Numerics, ...] = ("reference", "builtin")
    file = model.build([x], [result])
    return OneOperator(file, feed(draw, type_), f"variable tensor {type_}", modes=modes)


def _register(kind: str, dtype: str) -> None:
    makers = {
        "sum": sum_variable,
        "register": shift_register,
        "swap": swap,
        "tensor": variable_tensor,
    }

    @generator(f"VARIABLE {kind} {dtype}")
    def make(draw: Draw) -> OneOperator:
        return makers[kind](draw, dtype)


for _kind in ("sum", "register", "swap", "tensor"):
    for _dtype in ("int8", "uint8", "float32", "int32"):
        _register(_kind, _dtype)
