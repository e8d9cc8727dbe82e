"""Compiling, running, saving and loading from Python; threads, memory, arguments."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from importer_models import One, T
from kernel_harness import GuardedBuffer

import qimport
from qimport.arrays import Array
from qimport.codegen.host import why_not_runnable
from qimport.codegen.target import target_descriptions, target_named
from qimport.errors import ArgumentError, ModelError, TargetError
from qimport.model import CompiledModel
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle, random_inputs
from qimport.verify import verify_model

ROOT = Path(__file__).resolve().parents[1]
MODELS = sorted((ROOT / "models").glob("*.tflite"))
DIGITS = ROOT / "models" / "digits_int8_ptq.tflite"
MOBILE = ROOT / "models" / "mobile_int8.tflite"


@pytest.fixture(scope="module")
def digits() -> CompiledModel:
    return qimport.compile(DIGITS)


@pytest.fixture(scope="module")
def mobile() -> CompiledModel:
    return qimport.compile(MOBILE)


def same(a: list[Array], b: list[Array]) -> bool:
    return [(x.dtype, x.shape, x.tobytes()) for x in a] == [(x.dtype, x.shape, x.tobytes()) for x in b]


# Against the interpreter


@pytest.mark.parametrize("numerics", X86_NUMERICS)
@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_every_tensor_of_our_models_equals_the_interpreters(
    file: Path, numerics: str, oracle: Oracle
) -> None:
    report = verify_model(file, oracle, numerics=numerics, per_layer=True)
    assert report.equal, report
    assert report.elements == 3 * 10
    assert json.loads(json.dumps(report.as_dict()))["equal"] is True


@pytest.mark.parametrize("target", [name for name in target_descriptions() if name.startswith("x86-64")])
def test_every_level_gives_the_same_bytes(target: str, mobile: CompiledModel) -> None:
    reason = why_not_runnable(target_named(target))
    if reason is not None:
        pytest.skip(reason)
    compiled = qimport.compile(MOBILE, target)
    inputs = random_inputs(mobile.inputs, 7)
    assert compiled.target.name == target
    assert same(compiled.run(inputs), mobile.run(inputs))


def test_batches_are_independent(mobile: CompiledModel) -> None:
    batched = qimport.compile(MOBILE, batch=3)
    assert batched.inputs[0].shape == (3, 24, 24, 1)
    (images,) = random_inputs(batched.inputs, 1)
    (rows,) = batched.run(images)
    for image, row in zip(images, rows, strict=True):
        np.testing.assert_array_equal(mobile.run(image[None])[0][0], row)


# Values


def test_the_description_is_that_of_the_file(digits: CompiledModel) -> None:
    (image,), (scores,) = digits.inputs, digits.outputs
    assert (image.name, image.index, image.shape) == ("image", 0, (1, 8, 8, 1))
    assert image.dtype == np.int8
    assert (image.scale, image.zero_point, image.axis) == (float(np.float32(1 / 255)), -128, None)
    assert (scores.shape, scores.scales, scores.zero_points) == ((1, 10), (1 / 256,), (-128,))
    assert (digits.name, digits.numerics, digits.target.name) == ("digits_int8_ptq", "reference", "host")
    assert len(digits.rows) == len(digits.plan.splitlines()) - 1
    assert f"arena {digits.arena_bytes} bytes" in digits.plan
    assert "'image': i8[1x8x8x1]" in repr(digits)


def test_a_path_as_text_and_the_content_give_the_same_model(digits: CompiledModel) -> None:
    inputs = random_inputs(digits.inputs, 3)
    for model in (str(DIGITS), DIGITS.read_bytes(), bytearray(DIGITS.read_bytes())):
        assert same(qimport.compile(model).run(inputs), digits.run(inputs))
    assert qimport.compile(DIGITS.read_bytes()).name == "main"


def test_code_outlives_everything_that_made_it(digits: CompiledModel) -> None:
    def session() -> qimport.Session:
        return qimport.compile(DIGITS).session()

    survivor = session()
    run = qimport.compile(DIGITS).run
    for _ in range(3):
        gc.collect()
    inputs = random_inputs(digits.inputs, 5)
    expected = digits.run(inputs)
    assert same(run(inputs), expected)
    survivor.inputs[0][...] = inputs[0]
    survivor.run()
    assert same(list(survivor.outputs), expected)


def test_many_models_come_and_go() -> None:
    inputs = random_inputs(qimport.compile(DIGITS).inputs, 0)
    results = [qimport.compile(DIGITS).run(inputs) for _ in range(10)]
    gc.collect()
    assert all(same(result, results[0]) for result in results)


def test_threads_share_one_model(mobile: CompiledModel) -> None:
    inputs = [random_inputs(mobile.inputs, seed) for seed in range(8)]
    expected = [mobile.run(item) for item in inputs]

    def work(number: int) -> bool:
        return all(same(mobile.run(inputs[number]), expected[number]) for _ in range(100))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_threads_race_for_the_first_call(digits: CompiledModel) -> None:
    inputs = random_inputs(digits.inputs, 9)
    expected = digits.run(inputs)
    fresh = pickle.loads(pickle.dumps(digits))
    with ThreadPoolExecutor(8) as pool:
        assert all(same(result, expected) for result in pool.map(fresh.run, [inputs] * 32))


def test_a_run_of_a_session_allocates_nothing(mobile: CompiledModel) -> None:
    session = mobile.session()
    session.run()
    tracemalloc.start()
    try:
        for _ in range(10):
            session.run()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 512, "more than the arguments of one call"


def test_sessions_are_independent(mobile: CompiledModel) -> None:
    first, second = mobile.session(), mobile.session()
    for session, seed in ((first, 1), (second, 2)):
        session.inputs[0][...] = random_inputs(mobile.inputs, seed)[0]
    first.run()
    second.run()
    for session, seed in ((first, 1), (second, 2)):
        assert same(list(session.outputs), mobile.run(random_inputs(mobile.inputs, seed)))


def test_arrays_that_cannot_be_bound_are_refused(digits: CompiledModel) -> None:
    image, scores = np.zeros((1, 8, 8, 1), np.int8), np.zeros((1, 10), np.int8)
    frozen = scores.copy()
    frozen.flags.writeable = False
    wrong: list[tuple[list[Array] | None, list[Array] | None, str]] = [
        ([image, image], None, "2 input arrays given, the model has 1"),
        ([image.astype(np.uint8)], None, "input 'image' needs a C-contiguous array of int8"),
        ([np.zeros((1, 8, 16, 1), np.int8)[:, :, ::2]], None, "needs a C-contiguous"),
        (None, [scores[0]], "output 'Identity' needs a C-contiguous writable array of int8"),
        (None, [frozen], "writable"),
    ]
    for inputs, outputs, sentence in wrong:
        with pytest.raises(ArgumentError, match=sentence):
            digits.session(inputs, outputs)


def test_results_are_new_arrays(digits: CompiledModel) -> None:
    first = digits.run(random_inputs(digits.inputs, 1))
    kept = first[0].copy()
    digits.run(random_inputs(digits.inputs, 2))
    np.testing.assert_array_equal(first[0], kept)


def pickled(model: CompiledModel) -> CompiledModel:
    copied = pickle.loads(pickle.dumps(model))
    assert isinstance(copied, CompiledModel)
    return copied


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickled])
def test_copies_are_whole(copier: Callable[[CompiledModel], CompiledModel], mobile: CompiledModel) -> None:
    other = copier(mobile)
    inputs = random_inputs(mobile.inputs, 4)
    assert other.inputs == mobile.inputs
    assert other.target == mobile.target
    assert same(other.run(inputs), mobile.run(inputs))


# Memory


@pytest.mark.parametrize("offset", [0, 1, 3, 7])
@pytest.mark.parametrize("at_end", [False, True])
def test_buffers_of_any_alignment_between_guard_pages(
    at_end: bool, offset: int, mobile: CompiledModel
) -> None:
    """Nothing before or behind an input or output is touched, at whatever address it lies."""
    inputs = random_inputs(mobile.inputs, 6)
    expected = mobile.run(inputs)
    buffers = [GuardedBuffer(bytes(array.nbytes + offset), at_end) for array in (*inputs, *expected)]
    views = []
    for buffer, array in zip(buffers, (*inputs, *expected), strict=True):
        start = buffer.address + (0 if at_end else offset)
        raw = (ctypes.c_uint8 * array.nbytes).from_address(start)
        views.append(np.frombuffer(raw, array.dtype).reshape(array.shape))
    views[0][...] = inputs[0]
    mobile.session(views[:1], views[1:]).run()
    assert same(views[1:], expected)
    assert same(views[:1], inputs)


def test_inputs_may_be_read_only_strided_or_swapped_axes(mobile: CompiledModel) -> None:
    (image,) = random_inputs(mobile.inputs, 8)
    expected = mobile.run(image)
    frozen = image.copy()
    frozen.flags.writeable = False
    wide = np.zeros((1, 24, 48, 1), np.int8)
    wide[:, :, ::2] = image
    turned = np.asfortranarray(image)
    for variant in (frozen, wide[:, :, ::2], turned, image[::-1]):
        assert same(mobile.run(variant), expected)


def test_empty_arenas_and_constants_have_addresses() -> None:
    model = qimport.compile(One("RELU", [T((1, 4))], T((1, 4))).file())
    assert model.arena_bytes == 0
    (result,) = model.run(np.array([[-5, 0, 5, 127]], np.int8))
    np.testing.assert_array_equal(result, [[0, 0, 5, 127]])


# Arguments of run


def test_inputs_go_by_position_name_or_argument(mobile: CompiledModel) -> None:
    (image,) = random_inputs(mobile.inputs, 2)
    expected = mobile(image)
    for inputs in ([image], (image,), {"serving_default_image:0": image}, {"image": image}):
        assert same(mobile(inputs), expected)


def test_floats_are_quantized_on_request(digits: CompiledModel) -> None:
    with np.load(DIGITS.with_name("digits_int8_ptq_samples.npz")) as samples:
        name = next(key for key in samples.files if samples[key].ndim == 4)
        codes = samples[name][:1]
    scale, zero_point = digits.inputs[0].scale, digits.inputs[0].zero_point
    assert scale is not None
    assert zero_point is not None
    floats = ((codes.astype(np.float64) - zero_point) * scale).astype(np.float32)
    expected = digits.run(codes)
    assert same(digits.run(floats, quantize=True), expected)
    assert same(digits.run(floats.astype(np.float64), quantize=True), expected)
    assert same(digits.run(codes, quantize=True), expected)
    (real,) = digits.run(codes, dequantize=True)
    assert real.dtype == np.float32
    np.testing.assert_array_equal(real, (expected[0].astype(np.float32) + 128) / 256)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (
            np.zeros((1, 8, 8, 1), np.float32),
            "input 'image' is float32, the model wants int8 codes: real = 0.00392156886 * (code - -128); "
            "pass quantize=True to have the floats quantized so",
        ),
        (np.zeros((1, 8, 8, 1), np.uint8), "input 'image' is uint8, the model wants int8"),
        (np.zeros((1, 8, 8, 1), np.int64), "input 'image' is int64, the model wants int8"),
        (np.zeros((8, 8, 1), np.int8), "input 'image' has shape [8, 8, 1], the model wants [1, 8, 8, 1]"),
        (np.int8(3), "the model wants"),
        ([], "0 arrays were given, the model has 1 input(s): 'image'"),
        ([np.zeros(1), np.zeros(1)], "2 arrays were given, the model has 1 input(s): 'image'"),
        ({}, "no array for input 'image'"),
        ({"imag": np.zeros(1)}, "the model has no input 'imag'; did you mean 'image'?"),
        ({"x": np.zeros(1)}, "the model has no input 'x'; inputs are 'image'"),
        ([None], "the model wants [1, 8, 8, 1]"),
        ([[[1], [1, 2]]], "is no array"),
    ],
)
def test_wrong_inputs_are_refused(inputs: object, sentence: str, digits: CompiledModel) -> None:
    with pytest.raises(ArgumentError, match=re.escape(sentence)):
        digits.run(inputs)  # type: ignore[arg-type]


# Arguments of compile


def test_arguments_are_checked(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(b"not a model")
    cases: list[tuple[type[Exception], str, tuple[object, ...], dict[str, object]]] = [
        (ArgumentError, "cannot read .*nowhere.*: no such file", (tmp_path / "nowhere.tflite",), {}),
        (ArgumentError, "cannot read .*: is a directory", (tmp_path,), {}),
        (ArgumentError, "cannot read", ("a\0b",), {}),
        (ArgumentError, "not int", (3,), {}),
        (ArgumentError, "not NoneType", (None,), {}),
        (ModelError, "bad.tflite", (bad,), {}),
        (ModelError, "model", (b"",), {}),
        (TargetError, "did you mean 'x86-64-v4'", (DIGITS, "x86-64-v9"), {}),
        (ArgumentError, "mode 'referense'; did you mean 'reference'", (DIGITS,), {"numerics": "referense"}),
        (ArgumentError, "known: reference, builtin, xnnpack", (DIGITS,), {"numerics": "?"}),
        (ArgumentError, "threads is 0; expected a whole number from 1", (DIGITS,), {"threads": 0}),
        (ArgumentError, "threads is '2'", (DIGITS,), {"threads": "2"}),
        (ArgumentError, "threads is 257", (DIGITS,), {"threads": 257}),
        (ArgumentError, "no subgraph 1", (DIGITS,), {"subgraph": 1}),
        (ArgumentError, "did you mean 'image'", (DIGITS,), {"shapes": {"imago": (1, 8, 8, 1)}}),
        (ArgumentError, "batch is 0", (MOBILE,), {"batch": 0}),
    ]  # fmt: skip
    for kind, sentence, arguments, keywords in cases:
        with pytest.raises(kind, match=sentence):
            qimport.compile(*arguments, **keywords)  # type: ignore[arg-type]


def test_stages_are_texts(digits: CompiledModel, tmp_path: Path) -> None:
    assert "qnn.conv2d" in digits.stage("qnn")
    assert "prim.mac" in digits.stage("prim")
    assert digits.stage("plan") == digits.plan
    assert "define" in digits.stage("llvm")
    assert "ret" in digits.stage("asm")
    with pytest.raises(ArgumentError, match="unknown stage 'prin'; did you mean 'prim'"):
        digits.stage("prin")
    digits.save(tmp_path / "m")
    loaded = qimport.load(tmp_path / "m")
    assert loaded.stage("plan") == digits.plan
    with pytest.raises(ArgumentError, match="holds no stage 'prim', only its plan"):
        loaded.stage("prim")


# Files


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_a_saved_model_loads_and_gives_the_same_bytes(file: Path, tmp_path: Path) -> None:
    model = qimport.compile(file, numerics="xnnpack")
    model.save(tmp_path / "model.qimport")
    loaded = qimport.load(str(tmp_path / "model.qimport"))
    inputs = random_inputs(model.inputs, 1)
    assert same(loaded.run(inputs), model.run(inputs))
    for attribute in ("name", "numerics", "target", "inputs", "outputs", "signatures", "rows", "arena_bytes"):
        assert getattr(loaded, attribute) == getattr(model, attribute)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model.qimport").read_bytes()


def test_another_process_loads_it(digits: CompiledModel, tmp_path: Path) -> None:
    digits.save(tmp_path / "m")
    inputs = random_inputs(digits.inputs, 1)
    np.save(tmp_path / "in.npy", inputs[0])
    script = (
        "import sys, numpy, qimport; "
        "numpy.save(sys.argv[3], qimport.load(sys.argv[1]).run(numpy.load(sys.argv[2]))[0])"
    )
    files = [tmp_path / "m", tmp_path / "in.npy", tmp_path / "out.npy"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script, *files], check=True, env=environment)
    assert same([np.load(tmp_path / "out.npy")], digits.run(inputs))


def test_damaged_files_are_refused(digits: CompiledModel, tmp_path: Path) -> None:
    digits.save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    rng = np.random.default_rng(0)
    damaged = [b"", b"PK", content[:100], content[:-1], content[: len(content) // 2]]
    directory = content.index(b"PK\x01\x02")
    for method in (8, 12, 14, 99):  # deflate, bzip2, LZMA, none
        damaged.append(content[: directory + 10] + bytes([method]) + content[directory + 11 :])
    for place in rng.integers(0, len(content), 200):
        wrong = bytearray(content)
        wrong[place] ^= 1 << int(rng.integers(0, 8))
        damaged.append(bytes(wrong))
    unnoticed = 0
    for piece in damaged:
        (tmp_path / "d").write_bytes(piece)
        try:
            loaded = qimport.load(tmp_path / "d")
        except ModelError:
            continue
        # Some bytes of an archive mean nothing: its contents are whole then.
        unnoticed += 1
        assert loaded._artefact.to_bytes() == content
    assert unnoticed < 20


def edited(content: bytes, **changes: object) -> bytes:
    """A file whose description says something else."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "model.json":
                data = json.dumps({**json.loads(data), **changes}).encode()
            new.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        ({"version": "0.0.1"}, ModelError, "with qimport 0.0.1, this is .*; compile the model again"),
        ({"interpreter": "ai-edge-litert 1.0"}, ModelError, "numerics of ai-edge-litert 1.0"),
        ({"format": "something"}, ModelError, "is no compiled model"),
        ({"numerics": "fast"}, ModelError, "damaged: .*numerics"),
        ({"inputs": [{}]}, ModelError, "damaged"),
        ({"target": {"name": "x", "architecture": "x86-64", "features": ["warp"]}}, ModelError, "warp"),
    ],
)  # fmt: skip
def test_descriptions_that_do_not_fit_are_refused(
    changes: dict[str, object], kind: type[Exception], sentence: str, digits: CompiledModel, tmp_path: Path
) -> None:
    digits.save(tmp_path / "m")
    (tmp_path / "m").write_bytes(edited((tmp_path / "m").read_bytes(), **changes))
    with pytest.raises(kind, match=sentence):
        qimport.load(tmp_path / "m")


def test_files_that_cannot_be_read_or_written(digits: CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot read"):
        qimport.load(tmp_path / "nothing")
    with pytest.raises(ArgumentError, match="cannot write"):
        digits.save(tmp_path / "nowhere" / "m")
    with pytest.raises(ModelError, match="no compiled model"):
        qimport.load(DIGITS)


def test_code_for_another_machine_is_saved_but_does_not_run(tmp_path: Path) -> None:
    foreign = "arm64" if qimport.compile(DIGITS).target.architecture.name == "x86-64" else "x86-64"
    model = qimport.compile(DIGITS, foreign)
    model.save(tmp_path / "m")
    assert "ret" in model.stage("asm")
    inputs = random_inputs(model.inputs, 0)
    for call in (lambda: model.run(inputs), model.session, lambda: qimport.load(tmp_path / "m")):
        with pytest.raises(TargetError, match=f"{foreign} code does not run on this .* machine"):
            call()


def test_public_names_exist() -> None:
    for name in qimport.__all__:
        assert getattr(qimport, name) is not None
    assert set(dir(qimport)) >= set(qimport.__all__)
    with pytest.raises(AttributeError, match="no attribute 'complie'"):
        _ = qimport.complie


def test_the_version_is_that_of_the_project() -> None:
    assert f'version = "{qimport.__version__}"' in (ROOT / "pyproject.toml").read_text()
