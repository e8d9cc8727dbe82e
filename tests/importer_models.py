"""One-operator models for the tests of the importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qimport.errors import Reason, UnsupportedError
from qimport.frontend.importer import Imported, import_model
from qimport.frontend.schema import read_model
from qimport.qnn.base import QnnOperation
from tests.flatbuffer_builder import ModelBuilder


@dataclass(frozen=True)
class T:
    """A tensor of a test model; ``data`` makes it a constant, True one of zeros."""

    shape: Sequence[int]
    dtype: str = "int8"
    scale: float | Sequence[float] | None = 0.5
    zero_point: int | Sequence[int] = 0
    axis: int = 0
    data: Any = None
    name: str | None = None
    shape_signature: Sequence[int] | None = None
    is_variable: bool = False

    def add(self, model: ModelBuilder) -> int:
        """Enter the tensor into a file."""
        scale = self.scale if self.dtype in ("int8", "uint8", "int16", "int4") or self.scale != 0.5 else None
        data = np.zeros(self.shape, np.int8) if self.data is True else self.data
        return model.tensor(
            self.shape,
            self.dtype,
            scale,
            self.zero_point,
            self.axis,
            data,
            self.name,
            self.is_variable,
            self.shape_signature,
        )


def integers(*numbers: int, dtype: str = "int32", name: str | None = None) -> T:
    """A constant vector."""
    return T((len(numbers),), dtype, None, data=np.array(numbers, np.int64), name=name)


def bias(channels: int, scale: float | Sequence[float] | None = 0.25, **changes: Any) -> T:
    """A constant bias; 0.25 is the product of the default scales."""
    changes = {"dtype": "int32", "data": np.arange(channels), "name": "bias", **changes}
    return T((channels,), scale=scale, **changes)


@dataclass(frozen=True)
class One:
    """A model of one operator. Operands without data are the model's inputs; None is an absent one."""

    builtin: str
    operands: Sequence[T | None]
    result: T
    version: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def file(self) -> bytes:
        """The .tflite file."""
        model = ModelBuilder()
        indices = [-1 if operand is None else operand.add(model) for operand in self.operands]
        out = self.result.add(model)
        model.operator(self.builtin, indices, [out], self.version, **self.options)
        inputs = [
            index
            for index, operand in zip(indices, self.operands, strict=True)
            if operand is not None and operand.data is None and not operand.is_variable
        ]
        return model.build(list(dict.fromkeys(inputs)), [out])

    def load(self, **arguments: Any) -> Imported:
        """The imported model."""
        return load(self.file(), **arguments)

    def op(self, **arguments: Any) -> QnnOperation:
        """The operation of the only node."""
        (node,) = self.load(**arguments).graph.nodes
        assert isinstance(node.op, QnnOperation)
        return node.op


X = T((1, 6, 5, 4), name="x")
STRIDES = {"stride_w": 1, "stride_h": 1}
POOL = {**STRIDES, "filter_width": 2, "filter_height": 3, "padding": "VALID"}
SOFTMAX_OUT = T((2, 3), scale=1 / 256, zero_point=-128)


def conv(w: T | None = None, b: T | None = None, *, x: T = X, out: T | None = None, **options: Any) -> One:
    w = w or T((8, 3, 3, 4), data=True, name="w")
    options = {**STRIDES, "padding": "SAME", **options}
    return One("CONV_2D", [x, w, b or bias(8)], out or T((1, 6, 5, 8), name="y"), options=options)


def depthwise(w: T, *, x: T = X, out: T | None = None, b: T | None = None, **options: Any) -> One:
    options = {**STRIDES, "padding": "SAME", **options}
    return One("DEPTHWISE_CONV_2D", [x, w, b or bias(8)], out or T((1, 6, 5, 8), name="y"), options=options)


def dense(
    *, x: T | None = None, w: T | None = None, b: T | None = None, out: T | None = None, **options: Any
) -> One:
    w = w or T((3, 4), data=True, name="w")
    return One(
        "FULLY_CONNECTED", [x or T((2, 4), name="x"), w, b], out or T((2, 3), name="y"), options=options
    )


def unary(builtin: str, out: T | None = None, x: T | None = None, **options: Any) -> One:
    return One(builtin, [x or T((2, 3), name="x")], out or T((2, 3), name="y"), options=options)


def binary(builtin: str, out: T | None = None, b: T | None = None, **options: Any) -> One:
    return One(builtin, [X, b or T((5, 1), name="b")], out or T((1, 6, 5, 4), name="y"), options=options)


def plain(builtin: str, dtype: str, out: str | None = None) -> One:
    a, b = (T((2, 3), dtype, name=name) for name in "ab")
    return One(builtin, [a, b], T((2, 3), out or dtype, name="y"))


def load(file: bytes, **arguments: Any) -> Imported:
    """Read and import a file."""
    return import_model(read_model(file), **arguments)


def reasons(file: bytes, **arguments: Any) -> tuple[Reason, ...]:
    """Why a file is refused."""
    try:
        load(file, **arguments)
    except UnsupportedError as error:
        return error.reasons
    raise AssertionError("the file was imported")
