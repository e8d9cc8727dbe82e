"""Operations that only move elements: PAD, PADV2, RESHAPE, SHAPE, STRIDED_SLICE, PACK."""

from __future__ import annotations

import numpy as np
import pytest

from qimport import qnn
from qimport.errors import VerifyError
from qimport.ir.graph import Array, Call
from qimport.ir.types import TensorType
from qimport.oracle import Oracle
from tests.flatbuffer_builder import ModelBuilder
from tests.single_op import Case, add_tensor, expect_same, quantized

DTYPES = ["int8", "uint8", "int32", "float32"]
QUANTIZED = {"int8": (0.1, -5), "uint8": (0.1, 131)}


def tensor(dtype: str, shape: tuple[int, ...]) -> TensorType:
    return quantized(dtype, shape, *QUANTIZED[dtype]) if dtype in QUANTIZED else TensorType(dtype, shape)


def counting(type_: TensorType) -> Array:
    """Distinct elements."""
    return np.arange(1, type_.size + 1).reshape(type_.shape).astype(type_.numpy)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_pad_fills_with_the_zero_point(dtype: str, index_type: type, oracle: Oracle) -> None:
    x, out = tensor(dtype, (2, 3, 1)), tensor(dtype, (3, 5, 1))
    pads = np.array([[1, 0], [0, 2], [0, 0]], index_type)
    case = Case(qnn.Pad((1, 0, 0), (0, 2, 0)), (x,), out, "PAD", (pads,), version=2)
    case.check(oracle, [counting(x)])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_padv2_fills_with_its_own_code(dtype: str, oracle: Oracle) -> None:
    x, out = tensor(dtype, (2, 3)), tensor(dtype, (4, 4))
    model = ModelBuilder()
    source, target = add_tensor(model, x), add_tensor(model, out)
    pads = model.tensor((2, 2), "int32", data=np.array([[1, 1], [0, 1]], np.int32))
    value = model.tensor((), dtype, *QUANTIZED[dtype], data=np.array(77, x.numpy))
    model.operator("PADV2", [source, pads, value], [target], 2)
    answer = oracle.run(model.build([source], [target]), [counting(x)], "reference").outputs[0]
    case = Case(qnn.Pad((1, 0), (1, 1), 77), (x,), out, "PADV2")
    case.check(None, [counting(x)])
    node = case.graph().nodes[0]
    expect_same(node.op.evaluate(node.call("reference", (counting(x),)))[0], answer, "PADV2")


@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape(dtype: str, oracle: Oracle) -> None:
    x, out = tensor(dtype, (2, 3, 2)), tensor(dtype, (4, 3))
    case = Case(qnn.Reshape(), (x,), out, "RESHAPE", (np.array([4, -1], np.int32),))
    case.check(oracle, [counting(x)])


@pytest.mark.parametrize("out_type", ["int32", "int64"])
def test_shape_reads_no_element(out_type: str, oracle: Oracle) -> None:
    x = tensor("int8", (2, 3, 1))
    case = Case(qnn.Shape(), (x,), TensorType(out_type, (3,)), "SHAPE", options={"out_type": out_type})
    case.check(oracle, [counting(x)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pack(dtype: str, axis: int, oracle: Oracle) -> None:
    x = tensor(dtype, (2, 3))
    out = tensor(dtype, (*x.shape[:axis], 3, *x.shape[axis:]))
    options = {"axis": axis, "values_count": 3}
    case = Case(qnn.Pack(axis), (x, x, x), out, "PACK", options=options)
    case.check(oracle, [np.roll(counting(x), shift) for shift in range(3)])


SLICES = {
    "x[::-1]": ((4, 3), (3, 0), (-1, 1), (4, 3), (-5, 3), {"begin_mask": 2, "end_mask": 3}, (4, 3)),
    "x[-1]": ((4, 3), (3, 0), (1, 1), (1, 3), (0, 3), {"shrink_axis_mask": 1}, (3,)),
    "x[..., 0]": ((2, 4, 3), (0, 0, 0), (1, 1, 1), (2, 4, 1), (2, 4, 1), {"shrink_axis_mask": 4}, (2, 4)),
    "x[1, 2:4]": ((4, 4), (1, 2), (1, 1), (1, 2), (2, 4), {"shrink_axis_mask": 1}, (2,)),
    "x[1:3, 2]": ((4, 4), (1, 2), (1, 1), (2, 1), (3, 3), {"shrink_axis_mask": 2}, (2,)),
    "x[::2, ::-2]": ((5, 4), (0, 3), (2, -2), (3, 2), (5, -5), {}, (3, 2)),
    "x[2]": ((4,), (2,), (1,), (1,), (3,), {"shrink_axis_mask": 1}, ()),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SLICES)
def test_strided_slice(name: str, dtype: str, oracle: Oracle) -> None:
    shape, begin, stride, size, end, masks, result = SLICES[name]
    x, out = tensor(dtype, shape), tensor(dtype, result)
    constants = tuple(np.array(numbers, np.int32) for numbers in (begin, end, stride))
    op = qnn.StridedSlice(begin, stride, size)
    Case(op, (x,), out, "STRIDED_SLICE", constants, version=2, options=masks).check(oracle, [counting(x)])


@pytest.mark.parametrize(
    ("op", "inputs", "result", "label"),
    [
        (qnn.Pad((1, 0), (0, 0)), [(2, 3)], (2, 3), "C2"),
        (qnn.Pad((1,), (0, 0)), [(2, 3)], (3, 3), "C2"),
        (qnn.Pad((-1, 0), (0, 0)), [(2, 3)], (1, 3), "C2"),
        (qnn.Reshape(), [(2, 3)], (5,), "C2"),
        (qnn.Pack(0), [(2, 3), (2, 3)], (2, 3, 2), "C2"),
        (qnn.Pack(0), [(2, 3), (3, 2)], (2, 2, 3), "C2"),
        (qnn.StridedSlice((0,), (1,), (3,)), [(2, 3)], (3,), "C2"),
        (qnn.StridedSlice((1, 0), (1, 1), (2, 3)), [(2, 3)], (2, 3), "C2"),
        (qnn.StridedSlice((0, 0), (1, 1), (2, 3)), [(2, 3)], (3, 2), "C3"),
    ],
)
def test_shapes_are_checked(
    op: qnn.QnnOperation, inputs: list[tuple[int, ...]], result: tuple[int, ...], label: str
) -> None:
    types = tuple(tensor("int8", shape) for shape in inputs)
    with pytest.raises(VerifyError, match=rf"\({label}\)"):
        op.verify(Call(types, (tensor("int8", result),)))


@pytest.mark.parametrize("op", [qnn.Pad((0,), (0,)), qnn.Reshape(), qnn.StridedSlice((0,), (1,), (4,))])
def test_element_types_stay(op: qnn.QnnOperation) -> None:
    with pytest.raises(VerifyError, match=r"\(C1\)"):
        op.verify(Call((tensor("int8", (4,)),), (tensor("uint8", (4,)),)))
