"""Data movement: what is refused and why, and shape arithmetic that is gone after import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qimport.errors import ModelError
from tests.flatbuffer_builder import ModelBuilder
from tests.importer_models import One, T, integers, load, reasons

INDEX = T((1,), "int32", None, name="i")
SCALAR = T((), "int32", None)


def pads(*rows: tuple[int, int]) -> T:
    """Constant paddings."""
    return T((len(rows), 2), "int32", None, data=np.array(rows))


UNSUPPORTED: list[tuple[One, str]] = [
    (One("TRANSPOSE", [T((2, 3)), T((2,), "int32", None)], T((3, 2))), "the permutation is computed at run"),
    (
        One("SLICE", [T((3,)), INDEX, integers(-1)], T((2,))),
        "the size is -1 and begin is computed at run time; expected one constant",
    ),
    (
        One("STRIDED_SLICE", [T((4,)), INDEX, integers(3), integers(1)], T((2,))),
        "begin is computed at run time; expected a constant, or single indices that drop their dimension",
    ),
    (
        One("GATHER", [T((3,)), integers(3)], T((1,)), options={"axis": 0}),
        "indices leave the dimensions (3,)",
    ),
    (One("GATHER", [T((3,)), T((1,), "float32")], T((1,))), "the element type is float32; expected int16 or"),
    (One("GATHER_ND", [T((3,)), integers(-1)], T(())), "indices leave the dimensions (3,)"),
    (
        One("SCATTER_ND", [T((1, 1), "int64", None), T((1,)), integers(3)], T((3,))),
        "the element type is int64; expected int32",
    ),
    (One("TILE", [T((3,)), INDEX], T((3,))), "the list of multiples is computed at run time"),
    (One("FILL", [INDEX, T((), name="v")], T((3,))), "the shape is computed at run time"),
    (One("FILL", [integers(3), T((), scale=0.25)], T((3,))), "scale 0.25, zero point 0; expected scale 0.5"),
    (One("RANGE", [SCALAR] * 3, T((3,), "int32", None)), "the start is computed at run time"),
    (One("MATRIX_DIAG", [T((2,), "bool")], T((2, 2), "bool")), "the element type is bool; expected int8 or"),
    (
        One("MIRROR_PAD", [T((3,), zero_point=1), pads((1, 0))], T((4,))),
        "scale 0.5, zero point 1; expected scale 0.5, zero point 0",
    ),
]


@pytest.mark.parametrize(("model", "sentence"), UNSUPPORTED)
def test_what_is_not_supported_is_said(model: One, sentence: str) -> None:
    (reason,) = reasons(model.file())
    assert reason.sentence.startswith(sentence)


MALFORMED: list[tuple[One, str]] = [
    (
        One("TRANSPOSE", [T((2, 3)), integers(0, 0)], T((2, 2))),
        "(0, 0) is no permutation of the 2 dimensions",
    ),
    (
        One("SLICE", [T((3,)), integers(2), integers(2)], T((2,))),
        "2 elements from 2 on leave a dimension of 3",
    ),
    (
        One("SPLIT", [integers(0), T((3,))], T((3,)), options={"num_splits": 2}),
        "it has 1 results, but the option num_splits says 2",
    ),
    (
        One("SPLIT_V", [T((3,)), integers(2), integers(0)], T((2,)), options={"num_splits": 1}),
        "sizes (2,) do not fill a dimension of 3",
    ),
    (One("UNPACK", [T((2,))], T(()), options={"num": 1}), "tensor 't0' has 2 parts along 0; expected 1"),
    (One("TILE", [T((3,)), integers(1, 2)], T((3,))), "there are 2 multiples for shape (3,)"),
    (
        One("BROADCAST_TO", [T((3,)), integers(4)], T((4,)), 2),
        "tensor 't0' of shape (3,) does not stretch to",
    ),
    (One("REVERSE_V2", [T((3,)), integers(0, -1)], T((3,))), "the dimensions (0, -1) are not distinct"),
    (
        One("MIRROR_PAD", [T((2,)), pads((2, 0))], T((4,)), options={"mode": "REFLECT"}),
        "2 and 0 elements do not mirror in a dimension of 2",
    ),
    (
        One("SPACE_TO_DEPTH", [T((1, 3, 2, 1))], T((1, 1, 1, 4)), options={"block_size": 2}),
        "tensor 't0' of shape (1, 3, 2, 1) is not made of blocks of 2",
    ),
    (
        One("BATCH_TO_SPACE_ND", [T((3, 2, 1)), integers(2), pads((0, 0))], T((1, 4, 1))),
        "3 images are no multiple of 2",
    ),
    (
        One("REVERSE_SEQUENCE", [T((2, 3)), INDEX], T((2, 3)), options={"seq_dim": 1}),
        "there are 1 lengths for shape (2, 3)",
    ),
    (
        One("DYNAMIC_UPDATE_SLICE", [T((2,)), T((3,), name="u"), INDEX], T((2,))),
        "tensor 'u' of shape (3,) does not fit into (2,)",
    ),
]


@pytest.mark.parametrize(("model", "sentence"), MALFORMED)
def test_a_contradiction_is_a_model_error(model: One, sentence: str) -> None:
    with pytest.raises(ModelError) as raised:
        model.load()
    assert str(raised.value).startswith(f"operator 0 ({model.builtin}): {sentence}")


def computed(model: ModelBuilder, builtin: str, operands: list[int], result: T, **options: Any) -> int:
    """One more operator, and the tensor that it computes."""
    tensor = result.add(model)
    model.operator(builtin, operands, [tensor], **options)
    return tensor


def test_shape_arithmetic_leaves_no_node() -> None:
    """The last dimension of a tensor, read, reversed, doubled up and used as the shape of everything."""
    model = ModelBuilder()
    vector, number = T((2,), "int32", None), T((), "int32", None)
    x = T((2, 3), name="x").add(model)
    shape = computed(model, "SHAPE", [x], vector)
    rank = computed(model, "RANK", [x], number)
    last = [integers(n).add(model) for n in (1, 2, 1)]
    size = computed(model, "STRIDED_SLICE", [shape, *last], number, shrink_axis_mask=1)
    pair = computed(model, "PACK", [rank, size], vector, values_count=2)
    swapped = computed(model, "REVERSE_V2", [pair, integers(0).add(model)], vector)
    picked = computed(model, "GATHER", [swapped, integers(1, 0).add(model)], vector)
    both = computed(model, "BROADCAST_ARGS", [picked, shape], vector)
    results = [
        computed(model, "BROADCAST_TO", [x, both], T((2, 3), name="same"), version=2),
        computed(model, "TILE", [x, both], T((4, 9), name="tiled")),
        computed(model, "FILL", [both, T((), data=[7]).add(model)], T((2, 3), name="filled")),
        computed(model, "RESHAPE", [x, swapped], T((3, 2), name="turned")),
    ]
    graph = load(model.build([x], results)).graph
    assert [node.op.NAME for node in graph.nodes] == [
        "qnn.broadcast_to",
        "qnn.tile",
        "qnn.broadcast_to",
        "qnn.reshape",
    ]
    assert [value.type.shape for value in graph.outputs] == [(2, 3), (4, 9), (2, 3), (3, 2)]


def slice_constant(data: npt.NDArray[np.int32], index: Sequence[Any]) -> npt.NDArray[Any]:
    """What STRIDED_SLICE makes of ``data[index]``, written with all its masks."""
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for bit, part in enumerate(index):
        numbers = (0, 0, 1)
        if part is Ellipsis:
            masks["ellipsis_mask"] |= 1 << bit
        elif part is None:
            masks["new_axis_mask"] |= 1 << bit
        elif isinstance(part, int):
            masks["shrink_axis_mask"] |= 1 << bit
            numbers = (part, part + 1, 1)
        else:
            masks["begin_mask"] |= (part.start is None) << bit
            masks["end_mask"] |= (part.stop is None) << bit
            numbers = (part.start or 0, part.stop or 0, part.step or 1)
        for values, number in zip((begin, end, strides), numbers, strict=True):
            values.append(number)
    expected = data[tuple(index)]
    operands = [T(data.shape, "int32", data=data), integers(*begin), integers(*end), integers(*strides)]
    model = One("STRIDED_SLICE", operands, T(expected.shape, "int32"), options=masks)
    found = model.load().graph.outputs[0].data
    assert found is not None
    np.testing.assert_array_equal(found, expected)
    return found


@pytest.mark.parametrize(
    "index",
    [
        (slice(None, None, -1),),
        (-1,),
        (..., 0),
        (slice(1, 3), ..., slice(None, None, 2)),
        (None, ..., None, 2),
        (0, 1, 2),
        (slice(-1, None, -2), slice(-9, 9)),
        (),
    ],
)
def test_strided_slice_masks_mean_what_numpy_means(index: tuple[Any, ...]) -> None:
    slice_constant(np.arange(60, dtype=np.int32).reshape(3, 4, 5), index)


ENDS = st.none() | st.integers(-6, 6)
SLICES = st.builds(slice, ENDS, ENDS, st.sampled_from((None, 1, 2, 3, -1, -2)))


@given(st.lists(SLICES | st.none() | st.integers(-3, 2), max_size=5), st.integers(0, 9))
def test_any_strided_slice_equals_numpy(parts: list[Any], ellipsis_at: int) -> None:
    """Of three dimensions: at most three are selected; an ellipsis may stand anywhere."""
    while sum(part is not None for part in parts) > 3:
        parts.remove(next(part for part in parts if part is not None))
    if ellipsis_at <= len(parts) and sum(part is not None for part in parts) < 3:
        parts.insert(ellipsis_at, ...)  # the interpreter's takes at least one dimension
    data = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    if data[tuple(parts)].size:
        slice_constant(data, parts)


def test_strided_slice_end_may_count_from_begin() -> None:
    operands = [integers(0, 1, 2, 3, 4), integers(2), integers(2), integers(1)]
    graph = One("STRIDED_SLICE", operands, T((2,), "int32"), options={"offset": True}).load().graph
    assert graph.outputs[0].data is not None
    np.testing.assert_array_equal(graph.outputs[0].data, [2, 3])
