"""Malformed .tflite files: whatever the bytes are, a model is read or a ``ModelError`` names the place."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

from qimport.errors import ModelError
from qimport.frontend.schema import Model, read_model
from tests.flatbuffer_builder import ModelBuilder, type_code
from tests.schema_models import small_model


def edited(edit: Callable[[ModelBuilder], None]) -> bytes:
    """The small model after ``edit`` wrote nonsense into it."""
    builder = small_model()
    builder.subgraphs[0].inputs, builder.subgraphs[0].outputs = [0], [3]
    edit(builder)
    return builder.build()


def set_operator(**fields: Any) -> Callable[[ModelBuilder], None]:
    return lambda builder: vars(builder.subgraphs[0].operators[0]).update(fields)


def set_tensor(**fields: Any) -> Callable[[ModelBuilder], None]:
    return lambda builder: vars(builder.subgraphs[0].tensors[1]).update(fields)


WEIGHTS = "subgraphs[0].tensors[1]"
SIGNATURE = f"{WEIGHTS}.shape_signature"
SCALE, ZERO_POINT, AXIS = (
    f"{WEIGHTS}.quantization.{name}" for name in ("scale", "zero_point", "quantized_dimension")
)
OPERATOR = "subgraphs[0].operators[0]"
MALFORMED_MODELS: list[tuple[str, Callable[[ModelBuilder], None], str, str]] = [
    ("version 4", lambda b: setattr(b, "version", 4), "version", "schema version is 4, expected 3"),
    ("no subgraph", lambda b: b.subgraphs.clear(), "subgraphs", "no subgraph, expected at least one"),
    ("negative operator code", lambda b: b.codes[0].update(builtin_code=-5, deprecated_builtin_code=-5),
     "operator_codes[0].builtin_code", "operator code is -5, expected 0 or more"),
    ("operator code index", set_operator(opcode=7), f"{OPERATOR}.opcode_index", "operator code 7 .* has 1"),
    ("operand index", set_operator(inputs=[0, 4]), f"{OPERATOR}.inputs", "item 1 is tensor 4, .* 4 tensors"),
    ("operand below -1", set_operator(inputs=[-2]), f"{OPERATOR}.inputs", "item 0 is tensor -2"),
    ("absent result", set_operator(outputs=[-1]), f"{OPERATOR}.outputs", "item 0 is tensor -1"),
    ("intermediate", set_operator(intermediates=[9]), f"{OPERATOR}.intermediates", "item 0 is tensor 9"),
    ("graph input", lambda b: setattr(b.subgraphs[0], "inputs", [-1]), "subgraphs[0].inputs", "tensor -1"),
    ("graph output", lambda b: setattr(b.subgraphs[0], "outputs", [4]), "subgraphs[0].outputs", "tensor 4"),
    ("option value", set_operator(options={"padding": 9}), f"{OPERATOR}.builtin_options.padding",
     "value 9 is none of the 2 known ones"),
    ("element type", set_tensor(type_code=99), f"{WEIGHTS}.type", "value 99 is none of the 23 known ones"),
    ("buffer index", set_tensor(buffer=9999), f"{WEIGHTS}.buffer", "'weights' refers to buffer 9999"),
    ("negative size", set_tensor(shape=[3, -1]), f"{WEIGHTS}.shape", r"\[3, -1\], expected no negative"),
    ("huge size", set_tensor(shape=[2**31 - 1, 2], buffer=0), f"{WEIGHTS}.shape", "more than 2147483647"),
    ("huge beside zero", set_tensor(shape=[0, 2**31 - 1, 2]), f"{WEIGHTS}.shape", "more than 2147483647"),
    ("rank", set_tensor(shape=[1] * 33), f"{WEIGHTS}.shape", "33 dimensions, expected at most 32"),
    ("signature rank", set_tensor(shape_signature=[-1]), SIGNATURE, "expected as many sizes"),
    ("signature size", set_tensor(shape_signature=[-2, 1, 1, 2]), SIGNATURE, "each -1 or more"),
    ("constant too small", set_tensor(shape=[4, 1, 1, 2], scale=[1.0], zero_point=[0]), f"{WEIGHTS}.buffer",
     r"6 bytes, expected 8 for int8\[4, 1, 1, 2\]"),
    ("constant too big", set_tensor(shape=[5], scale=[1.0], zero_point=[0]), f"{WEIGHTS}.buffer",
     r"6 bytes, expected 5 for int8\[5\]"),
    ("int4 constant", set_tensor(type_code=type_code("int4")), f"{WEIGHTS}.buffer", r"expected 3 for int4"),
    ("variable constant", set_tensor(is_variable=True), f"{WEIGHTS}.is_variable", "a variable but has"),
    ("NaN scale", set_tensor(scale=[0.1, np.nan, 1]), SCALE, "scale 1 .* is nan"),
    ("infinite scale", set_tensor(scale=[0.1, 1, np.inf]), SCALE, "scale 2 .* is inf"),
    ("negative scale", set_tensor(scale=[-1.0, 1, 1]), SCALE, "scale 0 .* is -1.0"),
    ("scale count", set_tensor(scale=[1.0, 1], zero_point=[0, 0]), SCALE,
     "'weights' .* has 2 scales, expected 1 or 3 along dimension 0"),
    ("zero point count", set_tensor(zero_point=[0]), ZERO_POINT, "1 zero points for 3"),
    ("axis", set_tensor(axis=4), AXIS, "along dimension 4"),
    ("negative axis", set_tensor(axis=-1), AXIS, "along dimension -1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "field", "sentence"),
    [row[1:] for row in MALFORMED_MODELS],
    ids=[row[0] for row in MALFORMED_MODELS],
)
def test_malformed_model_is_refused(edit: Callable[[ModelBuilder], None], field: str, sentence: str) -> None:
    file = edited(edit)
    with pytest.raises(ModelError, match=rf"^net\.tflite: .*{sentence}") as caught:
        read_model(file, source="net.tflite")
    assert caught.value.field == field
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset < len(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (b"", "the file is empty"),
        (b"TFL3", "has 4 bytes, too few"),
        (b"<html><body>Not found</body></html>", r"identifier is b'l><b', expected b'TFL3'"),
        (b"\x18\x00\x00\x00TFL3", "leads to byte 24 of 8"),
        (b"\x00\x00\x00\x00TFL3", "leads to byte 0 of 8"),
        (b"\xff\xff\xff\xffTFL3", "leads to byte 4294967295 of 8"),
        (b"\x08\x00\x00\x00TFL3\xff\xff\xff\x7f", r"expected here"),
        (b"\x08\x00\x00\x00TFL3\x00\x00\x00\x80", r"expected here"),
        (b"\x08\x00\x00\x00TFL3\x00\x00\x00\x00", "vtable of 0 and a body of 0 bytes"),
    ],
)
def test_no_flatbuffer_is_refused(file: bytes, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        read_model(file)


def test_every_truncation_is_refused_or_harmless() -> None:
    """Only padding at the end can be cut without being missed."""
    file = small_model().build([0], [3], "serving_default")
    whole = read_model(file)
    for length in range(len(file)):
        try:
            model = read_model(file[:length])
        except ModelError:
            continue
        assert describe(model) == describe(whole)
        assert length > len(file) - 8


@pytest.mark.parametrize("field", ["offset", "size"])
def test_buffer_outside_the_file_is_refused(field: str) -> None:
    builder = small_model()
    file = builder.build([0], [3], outside=True)
    size = len(builder.buffers[1] or b"")
    offset = len(file) - sum(-(-len(data or b"") // 16) * 16 for data in builder.buffers)
    place = file.index(struct.pack("<Q", offset))
    if field == "size":
        place = file.rindex(struct.pack("<Q", size), 0, place + 32)
    damaged = bytearray(file)
    damaged[place : place + 8] = struct.pack("<Q", 2**63)
    with pytest.raises(ModelError, match=r"bytes at byte .* were expected") as caught:
        read_model(damaged)
    assert caught.value.field == "buffers[1].offset"


def test_signature_and_metadata_indices_are_checked() -> None:
    builder = small_model()
    builder.metadata("notes", b"text")
    builder.metadata_entries[0] = ("notes", 77)
    with pytest.raises(ModelError, match="buffer 77 was asked for") as caught:
        read_model(builder.build([0], [3]))
    assert caught.value.field == "metadata[0].buffer"
    builder = small_model()
    builder.signature_subgraph = 5
    with pytest.raises(ModelError, match="subgraph 5 was asked for, the file has 1") as caught:
        read_model(builder.build([0], [3], "call"))
    assert caught.value.field == "signature_defs[0].subgraph_index"


def test_vector_longer_than_the_file_is_refused_before_it_is_read() -> None:
    file = bytearray(small_model().build([0], [3]))
    place = file.index(struct.pack("<5i", 4, 1, 4, 4, 2))
    file[place : place + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(ModelError, match="4294967295 items of 4 bytes do not fit") as caught:
        read_model(file)
    assert (caught.value.field, caught.value.offset) == ("subgraphs[0].tensors[0].shape", place)


def test_shared_parts_do_not_multiply() -> None:
    """20 000 offsets to one subgraph, which has 20 000 offsets to one tensor: 160 KB, 4e8 tensors."""
    file = shared_parts(20_000)
    start = time.perf_counter()
    with pytest.raises(ModelError, match="add up to far more than its"):
        read_model(file)
    assert time.perf_counter() - start < 10


def shared_parts(count: int) -> bytes:
    builder = flatbuffers.Builder(1024)

    def repeat(offset: int) -> int:
        builder.StartVector(4, count, 4)
        for _ in range(count):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    tflite.TensorStart(builder)
    tensors = repeat(tflite.TensorEnd(builder))
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensors)
    subgraphs = repeat(tflite.SubGraphEnd(builder))
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


# --- mutations ------------------------------------------------------------------------------------


def describe(model: Model) -> str:
    """Touch everything a reader hands out."""
    parts: list[Any] = [model.description, model.signatures, sorted(model.metadata)]
    for graph in model.subgraphs:
        parts += [graph.inputs, graph.outputs, *(operator.options for operator in graph.operators)]
        for tensor in graph.tensors:
            content = None if tensor.data is None else (tensor.data.shape, tensor.data.tobytes())
            parts += [tensor.name, tensor.shape, tensor.dtype, content]
    return repr(parts)


def mutate(file: bytes, random_: random.Random) -> bytes:
    data = bytearray(file)
    for _ in range(random_.choice((1, 1, 2, 4, 16))):
        kind = random_.randrange(4)
        place = random_.randrange(len(data))
        if kind == 0:
            data[place] ^= 1 << random_.randrange(8)
        elif kind == 1:
            data[place] = random_.randrange(256)
        elif kind == 2:
            value = random_.choice(
                (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), random_.randrange(2**32))
            )
            data[place : place + 4] = struct.pack("<I", value)[: len(data) - place]
        else:
            data = data[: max(place, 8)] if random_.random() < 0.2 else data
    return bytes(data)


def survives(file: bytes, seed: int, count: int) -> None:
    """Half of the mutations hit the first 8 KB, where tables are dense; each file is read or refused."""
    random_ = random.Random(seed)
    slowest, longest = 0.0, 0
    for number in range(count):
        if number % 2 and len(file) > 8192:
            damaged = mutate(file[:8192], random_) + file[8192:]
        else:
            damaged = mutate(file, random_)
        start = time.perf_counter()
        try:
            describe(read_model(damaged))
        except ModelError as error:
            longest = max(longest, len(str(error)))
        slowest = max(slowest, time.perf_counter() - start)
    assert slowest < 2
    assert longest < 1000


def test_mutations_of_a_built_model() -> None:
    builder = small_model()
    builder.metadata("min_runtime_version", b"1.5.0")
    builder.tensor((3,), "int4", 0.5, data=b"\x21\x03")
    survives(builder.build([0], [3], "serving_default"), 1, 2000)


@pytest.mark.parametrize("position", range(3))
def test_mutations_of_real_models(zoo: Path, position: int) -> None:
    """Three files of 10 to 60 KB, with many operators, from different converters."""
    files = [path for path in sorted(zoo.glob("zoo/*.tflite")) if 10_000 < path.stat().st_size < 60_000]
    survives(files[len(files) // 3 * position].read_bytes(), position, 700)
