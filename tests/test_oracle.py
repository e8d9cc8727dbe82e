"""The TFLite interpreter in its worker process: modes, refusals, crashes, versions."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from qimport.errors import ArgumentError
from qimport.numerics import X86_NUMERICS
from qimport.oracle import (
    INSTALL,
    SUPPORTED_VERSION,
    Oracle,
    OracleRefused,
    OracleUnavailable,
    OracleVersion,
    OracleVersionWarning,
    TensorDetail,
    random_inputs,
)
from tests.flatbuffer_builder import ModelBuilder


def tensor(shape: tuple[int, ...], dtype: str) -> TensorDetail:
    return TensorDetail(0, "x", shape, shape, np.dtype(dtype), (), (), 0)


def softmax_file(length: int) -> bytes:
    """SOFTMAX whose reference kernel ends the process when the exponentials of a row sum to 512."""
    model = ModelBuilder()
    x = model.tensor((1, length), "int8", scale=0.1)
    y = model.tensor((1, length), "int8", scale=1 / 256, zero_point=-128)
    model.operator("SOFTMAX", [x], [y], beta=1.0)
    return model.build([x], [y])


def mul_file() -> bytes:
    """MUL of all pairs of codes: 256 rows by 256 columns."""
    model = ModelBuilder()
    a = model.tensor((256, 1), "int8", scale=0.021, zero_point=3)
    b = model.tensor((1, 256), "int8", scale=0.037, zero_point=-5)
    y = model.tensor((256, 256), "int8", scale=0.045, zero_point=1)
    model.operator("MUL", [a, b], [y], version=2)
    return model.build([a, b], [y])


def conv_then_pool_file() -> bytes:
    """CONV_2D, which the delegate takes, and AVERAGE_POOL_2D, which it leaves."""
    rng = np.random.default_rng(5)
    model = ModelBuilder()
    x = model.tensor((1, 16, 16, 8), "int8", scale=0.05, zero_point=2, shape_signature=(-1, 16, 16, 8))
    weights = rng.integers(-127, 128, (16, 3, 3, 8))
    scales = rng.uniform(0.002, 0.02, 16)
    w = model.tensor(weights.shape, "int8", scale=scales.tolist(), data=weights)
    b = model.tensor((16,), "int32", scale=(0.05 * scales).tolist(), data=rng.integers(-999, 1000, 16))
    h = model.tensor((1, 16, 16, 16), "int8", scale=0.4, shape_signature=(-1, 16, 16, 16))
    y = model.tensor((1, 8, 8, 16), "int8", scale=0.4, shape_signature=(-1, 8, 8, 16))
    model.operator("CONV_2D", [x, w, b], [h], version=3, padding="SAME", stride_w=1, stride_h=1)
    model.operator(
        "AVERAGE_POOL_2D",
        [h],
        [y],
        version=2,
        padding="VALID",
        stride_w=2,
        stride_h=2,
        filter_width=2,
        filter_height=2,
    )
    return model.build([x], [y])


def test_the_installed_interpreter_is_the_one_the_modes_mean() -> None:
    """Other releases give other bytes: every comparison of the test suite would be with the wrong thing."""
    with Oracle() as oracle:
        try:
            installed = oracle.version
        except OracleUnavailable as error:
            pytest.skip(str(error))
        except OracleVersion as error:
            pytest.fail(f"WRONG ORACLE: {error}")
    assert installed == SUPPORTED_VERSION


def test_multiplication_rounds_differently_in_xnnpack_mode_only(oracle: Oracle) -> None:
    codes = np.arange(-128, 128).astype(np.int8)
    inputs = [codes.reshape(256, 1), codes.reshape(1, 256)]
    reference, builtin, xnnpack = (oracle.run(mul_file(), inputs, mode).outputs[0] for mode in X86_NUMERICS)
    assert np.array_equal(reference, builtin)
    differences = np.abs(reference.astype(int) - xnnpack)
    assert differences.max() == 1
    assert 0 < np.count_nonzero(differences) < 0.05 * differences.size


def test_convolution_differs_between_all_three_modes(oracle: Oracle) -> None:
    file = conv_then_pool_file()
    inputs = random_inputs(oracle.details(file)[0], 0)
    convolved = [oracle.run(file, inputs, mode, tensors=True).tensors[3].astype(int) for mode in X86_NUMERICS]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(convolved[i] - convolved[j]).max() == 1


def test_inner_tensors_lead_to_the_same_output(oracle: Oracle) -> None:
    file = conv_then_pool_file()
    inputs = random_inputs(oracle.details(file)[0], 1)
    for mode in X86_NUMERICS:
        plain = oracle.run(file, inputs, mode)
        detailed = oracle.run(file, inputs, mode, tensors=True)
        assert plain.tensors == {}
        assert np.array_equal(plain.outputs[0], detailed.outputs[0])
        assert np.array_equal(detailed.tensors[4], plain.outputs[0])
        assert np.array_equal(detailed.tensors[0], inputs[0])


def test_delegated_operators_are_told_by_index(oracle: Oracle) -> None:
    assert oracle.delegated_ops(conv_then_pool_file()) == {0}
    assert oracle.delegated_ops(mul_file()) == {0}
    assert oracle.delegated_ops(softmax_file(8)) == frozenset()


def test_inputs_may_be_resized(oracle: Oracle) -> None:
    file = conv_then_pool_file()
    resize = {0: (3, 16, 16, 8)}
    (x,), (y,) = oracle.details(file, resize=resize)
    assert (x.shape, x.shape_signature) == ((3, 16, 16, 8), (-1, 16, 16, 8))
    assert y.shape == (3, 8, 8, 16)
    inputs = random_inputs([x], 2)
    batch = oracle.run(file, inputs, "reference", resize=resize).outputs[0]
    single = [oracle.run(file, [inputs[0][i : i + 1]], "reference").outputs[0] for i in range(3)]
    assert np.array_equal(batch, np.concatenate(single))


def test_details_tell_the_quantization(oracle: Oracle) -> None:
    (x,), (y,) = oracle.details(softmax_file(8))
    assert (x.dtype, x.scales, x.zero_points) == (np.int8, (pytest.approx(0.1),), (0,))
    assert (y.shape, y.scales, y.zero_points) == ((1, 8), (1 / 256,), (-128,))


def test_an_abort_names_the_signal_and_the_next_call_works(oracle: Oracle) -> None:
    equal_logits = [np.zeros((1, 512), np.int8)]
    with pytest.raises(OracleRefused, match="SIGABRT") as caught:
        oracle.run(softmax_file(512), equal_logits, "reference")
    assert caught.value.signal == "SIGABRT"
    builtin = oracle.run(softmax_file(512), equal_logits, "builtin").outputs[0]
    assert builtin.shape == (1, 512)
    assert oracle.run(softmax_file(8), [np.zeros((1, 8), np.int8)], "reference").outputs[0].tolist() == [
        [-96] * 8
    ]


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\0" * 64], ids=["empty", "short", "zeros"])
def test_nonsense_is_refused_in_the_interpreters_words(oracle: Oracle, content: bytes) -> None:
    with pytest.raises(OracleRefused, match=r"refuses the model: ."):
        oracle.run(content, [], "reference")


def test_wrong_inputs_are_refused(oracle: Oracle) -> None:
    file = softmax_file(8)
    with pytest.raises(OracleRefused, match="0 inputs given, the model has 1"):
        oracle.run(file, [], "reference")
    with pytest.raises(OracleRefused, match="FLOAT32"):
        oracle.run(file, [np.zeros((1, 8), np.float32)], "reference")
    with pytest.raises(OracleRefused, match="Dimension mismatch"):
        oracle.run(file, [np.zeros((1, 9), np.int8)], "reference")
    with pytest.raises(OracleRefused, match="no input 1"):
        oracle.details(file, resize={1: (1, 8)})


def test_wrong_arguments_are_named(oracle: Oracle, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="unknown numerics mode 'fast'"):
        oracle.run(softmax_file(8), [], "fast")
    with pytest.raises(ArgumentError, match="cannot read"):
        oracle.run(tmp_path / "missing.tflite", [], "reference")


def test_a_file_may_be_given_by_path(oracle: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "softmax.tflite"
    file.write_bytes(softmax_file(8))
    assert oracle.run(file, [np.zeros((1, 8), np.int8)], "xnnpack").outputs[0].tolist() == [[-96] * 8]


def test_timing_gives_one_figure_per_round(oracle: Oracle) -> None:
    file = conv_then_pool_file()
    inputs = random_inputs(oracle.details(file)[0], 3)
    seconds = oracle.time(file, inputs, "builtin", rounds=4, threads=2)
    assert len(seconds) == 4
    assert min(seconds) > 0


def test_memory_covers_at_least_the_largest_step(oracle: Oracle) -> None:
    """The convolution needs its input and its output at once."""
    file = conv_then_pool_file()
    inputs = random_inputs(oracle.details(file)[0], 4)
    memory = oracle.memory(file, inputs, "reference")
    assert memory.arena_bytes is not None
    assert memory.arena_bytes >= 16 * 16 * (8 + 16)
    assert memory.arena_bytes < 2 * 16 * 16 * (8 + 16)
    assert memory.heap_bytes is None or memory.heap_bytes >= memory.arena_bytes


def test_threads_share_one_oracle(oracle: Oracle) -> None:
    answers: dict[int, list[int]] = {}

    def ask(code: int) -> None:
        x = np.full((1, 8), code, np.int8)
        x[0, 0] = 0
        answers[code] = oracle.run(softmax_file(8), [x], "reference").outputs[0].ravel().tolist()

    threads = [threading.Thread(target=ask, args=(code,)) for code in range(-8, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    firsts = [answers[code][0] for code in range(-8, 0)]
    assert firsts == sorted(firsts, reverse=True)
    assert len(set(firsts)) == len(firsts)


def test_a_missing_interpreter_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ai_edge_litert"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('hidden by this test')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Oracle() as oracle, pytest.raises(OracleUnavailable) as caught:
        _ = oracle.version
    assert INSTALL in str(caught.value)
    assert "hidden by this test" in str(caught.value)


def test_another_version_is_an_error_or_a_warning(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert oracle.version == SUPPORTED_VERSION  # skips where there is none
    metadata = tmp_path / "ai_edge_litert-9.9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ai-edge-litert\nVersion: 9.9.9\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Oracle() as other, pytest.raises(OracleVersion, match=r"9\.9\.9 is installed.*2\.3\.0"):
        _ = other.version
    with Oracle(any_version=True) as other:
        with pytest.warns(OracleVersionWarning, match=r"9\.9\.9"):
            assert other.version == "9.9.9"
        assert other.run(softmax_file(8), [np.zeros((1, 8), np.int8)], "builtin").outputs[0].size == 8


def test_a_worker_that_does_not_answer_is_given_up() -> None:
    with Oracle(timeout=0.001) as oracle, pytest.raises(OracleUnavailable, match=r"no answer in 0\.001 s"):
        _ = oracle.version


def test_a_closed_oracle_starts_again(oracle: Oracle) -> None:
    oracle.close()
    assert oracle.version == SUPPORTED_VERSION


def test_random_inputs_follow_the_seed() -> None:
    tensors = [tensor((4, 1000), "int8"), tensor((7,), "float32")]
    first, again, other = (random_inputs(tensors, seed) for seed in (1, 1, 2))
    assert [x.tobytes() for x in first] == [x.tobytes() for x in again]
    assert [x.tobytes() for x in first] != [x.tobytes() for x in other]
    expected = np.random.default_rng(1).integers(-128, 127, (4, 1000), np.int8, endpoint=True)
    assert np.array_equal(first[0], expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32", "int32", "bool"])
def test_random_inputs_cover_their_range(dtype: str) -> None:
    (x,) = random_inputs([tensor((1_000_000,), dtype)], 0, index_limit=10)
    low, high = {"int32": (0, 9), "bool": (0, 1), "float32": (-1.0, 1.0)}.get(dtype) or (
        np.iinfo(dtype).min,
        np.iinfo(dtype).max,
    )
    assert x.dtype == dtype
    assert x.min() == pytest.approx(low, abs=1e-5)
    assert x.max() == pytest.approx(high, abs=1e-5)
    assert dtype != "float32" or x.max() < 1


def test_random_inputs_know_no_strings() -> None:
    with pytest.raises(ArgumentError, match="no random values"):
        random_inputs([tensor((2,), "S4")], 0)
