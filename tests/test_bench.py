"""Timing beside other run-times: turns, failures of peers, and what the command prints."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from command_line import DIGITS, MOBILE, fail, run, succeed

from qimport.arrays import Array
from qimport.benchmark import contest, geometric_mean
from qimport.codegen.host import host_target
from qimport.codegen.peak import row_peak
from qimport.errors import ArgumentError
from qimport.oracle import Oracle
from qimport.peers import Bound, PeerRefused, Peers, PeerUnavailable

QUICK = ("--rounds", 2, "--vs", "none", "--no-verify")


class Clocked:
    """A contestant with known times that may fail from some turn on."""

    def __init__(self, log: list[str], name: str, seconds: float, output: int, turns: int = 1000) -> None:
        self.log, self.name, self.seconds, self.output, self.turns = log, name, seconds, output, turns

    def first(self) -> list[Array]:
        return [np.full(3, self.output, np.int8)]

    def turn(self, calls: int) -> list[float]:
        self.log.append(self.name)
        self.turns -= 1
        if self.turns < 0:
            raise PeerRefused(f"{self.name} has ended")
        return [self.seconds, *[2 * self.seconds] * (calls - 1)]


def test_contestants_take_turns() -> None:
    log: list[str] = []
    contestants = {"a": Clocked(log, "a", 1.0, 5), "b": Clocked(log, "b", 3.0, 6)}
    wanted = [np.array([5, 6, 5], np.int8)]
    (a, b), rounds = contest(contestants, wanted, rounds=4)
    assert rounds == 4
    assert log == ["a", "b"] * 5, "one turn finds out how many calls make a turn"
    assert (a.minimum, a.median, b.minimum, b.median) == (1.0, 2.0, 3.0, 6.0)
    assert (a.differing, b.differing) == (1, 2)


def test_a_peer_that_fails_leaves_the_others_alone() -> None:
    log: list[str] = []
    contestants = {"a": Clocked(log, "a", 1.0, 5), "b": Clocked(log, "b", 3.0, 6, turns=2)}
    (a, b), rounds = contest(contestants, None, rounds=4)
    assert (rounds, a.calls, a.differing) == (4, 12, None)
    assert b.error == "b has ended"
    assert math.isnan(b.minimum)
    assert log.count("b") == 3


def test_quick_calls_are_made_in_larger_numbers() -> None:
    calls: list[int] = []
    (timing,), rounds = contest({"a": Bound(lambda: calls.append(1), [])}, None, rounds=3)
    assert timing.calls == 3 * 200
    assert len(calls) == 1 + (1 + 3) + rounds * (1 + 200), "the first of a turn is not timed"


def test_geometric_means_leave_out_what_is_missing() -> None:
    assert geometric_mean([2.0, 8.0, math.nan]) == pytest.approx(4.0)
    assert math.isnan(geometric_mean([]))


def test_peers_have_names() -> None:
    with pytest.raises(ArgumentError, match=r"unknown peer 'tflit'.*tflite"):
        Peers(["tflit"])


def test_a_missing_openvino_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "openvino.py").write_text("raise ImportError('hidden by this test')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        pytest.raises(PeerUnavailable, match=r"OpenVINO is not installed.*pip install openvino"),
        Peers(["openvino"]),
    ):
        pass


FAKE_OPENVINO = '''
"""Gives 7 for every element, and refuses inputs that are not int8."""
import importlib.metadata, numpy as np

class Tensor:
    def __init__(self, array): self.data = array

class Model:
    inputs = [None]
    outputs = [None]
    def reshape(self, shapes): assert shapes == {0: [1, 8, 8, 1]}, shapes

class Request:
    def set_input_tensor(self, position, tensor): self.given = tensor
    def infer(self): self.seen = self.given.data.sum()
    def get_output_tensor(self, position): return Tensor(np.full((1, 10), 7, np.int8))

class Compiled:
    def create_infer_request(self): return Request()

class Core:
    def read_model(self, path): return Model()
    def compile_model(self, model, device, settings):
        assert (device, settings["INFERENCE_NUM_THREADS"], settings["NUM_STREAMS"]) == ("CPU", 1, 1)
        return Compiled()
'''


@pytest.fixture
def fake_openvino(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is called as OpenVINO is: neither its size nor its bytes belong into these tests."""
    (tmp_path / "openvino.py").write_text(FAKE_OPENVINO)
    metadata = tmp_path / "openvino-1.2.3.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: openvino\nVersion: 1.2.3\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("fake_openvino")
def test_json_holds_everything(oracle: Oracle) -> None:
    arguments = ["bench", DIGITS, "--rounds", 2, "--vs", "tflite,openvino", "--per-layer", "--json"]
    found = json.loads(succeed(*arguments))
    assert found["peers"] == {"tflite": f"ai-edge-litert {oracle.version}", "openvino": "openvino 1.2.3"}
    (model,) = found["models"]
    ours, tflite, openvino = model["timings"]
    assert (model["exact"], model["rounds"], model["output_elements"]) == (True, 2, 10)
    assert (ours["name"], ours["differing"], ours["ratio"]) == ("qimport", 0, 1.0)
    assert 0 < tflite["minimum"] <= tflite["median"]
    assert openvino["differing"] == 10, openvino
    best = min(tflite["ratio"], openvino["ratio"])
    assert found["geometric_means"]["best"] == pytest.approx(best)
    assert sum(layer["macs"] for layer in model["layers"]) == sum(kind["macs"] for kind in model["kinds"]) > 0
    assert all(layer["bytes_moved"] > 0 for layer in model["layers"])


def test_tables_on_a_terminal() -> None:
    text = succeed("bench", DIGITS, MOBILE, *QUICK, "--per-layer")
    assert f"code for host: {' '.join(sorted(host_target().features))}" in text
    assert "numerics reference, 1 thread, 2 rounds" in text
    assert text.count("not compared") == 2
    assert text.count("every kernel call") == 2


def test_wrong_arguments_are_sentences(tmp_path: Path) -> None:
    assert "unknown peer 'onnx'" in fail(4, "bench", DIGITS, "--vs", "onnx")
    assert "none.tflite" in fail(4, "bench", tmp_path / "none.tflite", *QUICK)
    assert "unknown target" in fail(4, "bench", DIGITS, "--target", "z80", *QUICK)
    assert "--rounds" in fail(4, "bench", DIGITS, "--rounds", 0)
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(Path(DIGITS).read_bytes()[:500])
    result = run("bench", broken, DIGITS, *QUICK)
    assert (result.exit_code, result.stderr.count("qimport: error: ")) == (2, 1)
    assert "digits_int8_ptq" in result.stdout, "the other model is timed nevertheless"


def rows_with_a_peak() -> Sequence[str]:
    rows = {"mac_amx": "amx-int8", "mac_tile_avx512vnni": "avx512vnni", "mac_tile_avx2": "avx2"}
    return [row for row, feature in rows.items() if host_target().has(feature)]


@pytest.mark.parametrize("row", [*rows_with_a_peak(), "mac_depthwise"])
def test_peaks_are_those_of_a_processor(row: str) -> None:
    peak = row_peak(row, host_target())
    assert peak is not None
    assert 1e8 < peak < 1e14
    assert row_peak("movement_generic", host_target()) is None
