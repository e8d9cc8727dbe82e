"""Importing real files: which are refused, which take other batches, and what a bad one is told."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from qimport.errors import ModelError, UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.ops import IMPORTERS
from qimport.frontend.schema import read_model
from qimport.ir.text import print_graph
from tests.importer_models import load

# Of the files that hold only operators of the importer: why the others are refused. No interpreter runs them
# but for the last one, whose 8-bit state the kernel reads as 16-bit numbers beyond its end.
REFUSED = {
    "litert__blockwise_quantized": "which no operator computes and which has no content",
    "litert__lstm_quantized2": r"has the shape \[-1\]",
    "litert__svdf_quantized": "the state .* must have shape",
    "tflm__keyword_scrambled_8bit": "the kernel reads int16, beyond its end",
}

BAD_INPUT: dict[str, tuple[type[Exception], str]] = {
    "BADINPUT_coral__keras_lstm_mnist_ptq_edgetpu": (UnsupportedError, "CUSTOM edgetpu-custom-op"),
    "BADINPUT_coral__model_invoking_error": (UnsupportedError, "CUSTOM fake-op-double"),
    "BADINPUT_flutter__bad_model": (ModelError, "identifier"),
    "BADINPUT_litert__0_subgraphs": (ModelError, "no subgraph"),
    "BADINPUT_litert__empty_model": (ModelError, "no outputs"),
    "BADINPUT_litert__segment_sum_invalid_buffer": (ModelError, "no content"),
    "BADINPUT_litert__softplus_flex": (UnsupportedError, "CUSTOM FlexSoftplus"),
    "BADINPUT_litert__string_input_model": (UnsupportedError, "string"),
    "BADINPUT_tflm__person_detect_vela": (UnsupportedError, "CUSTOM ethos-u"),
}


def supported_files(zoo: Path) -> list[str]:
    """Names of the files whose operators all have an importer."""
    with (zoo / "INDEX.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        Path(row["file"]).stem
        for row in rows
        if row["ops"] and {op.rsplit(":", 1)[0].strip() for op in row["ops"].split(",")} <= set(IMPORTERS)
    ]


def test_real_files_of_known_operators_import(zoo: Path) -> None:
    for name in supported_files(zoo):
        file = (zoo / "zoo" / f"{name}.tflite").read_bytes()
        if name in BAD_INPUT:
            continue
        if name in REFUSED:
            with pytest.raises((UnsupportedError, ModelError), match=REFUSED[name]):
                load(file)
            continue
        graph = load(file).graph
        assert not any(node.op.NAME == "qnn.shape" for node in graph.nodes)
        assert print_graph(graph).startswith("graph @")


PINS = {
    "coral__keras_lstm_mnist_ptq": r"operator 1 .* does not hold 3 rows of 20; the file pins",
    "dtln__model_quant_1": r"operator 0 \(UNPACK\).* 3 parts along 0; expected 1; the file pins shape",
    "esphome__okay_nabu": r"operator 15 \(CONCATENATION\).* expected \(1, 4, 1, 40\).*; the file pins shape",
    "tfsupport__coco_ssd_mobilenet_v1_1.0_quant_2018_06_29": r"operator 63 .* batch of 1 .*; the file pins",
}
"""Real files of a fixed batch of 1, and which operator cannot do without it."""


@pytest.mark.parametrize("name", PINS)
def test_what_pins_the_batch_of_a_real_file_is_named(name: str, zoo: Path) -> None:
    model = read_model((zoo / "zoo" / f"{name}.tflite").read_bytes())
    graph = model.subgraphs[0]
    shapes = {index: (3, *graph.tensors[index].shape[1:]) for index in graph.inputs}
    with pytest.raises(UnsupportedError, match=PINS[name]):
        import_model(model, shapes=shapes)


def test_real_files_with_an_open_batch_take_any(zoo: Path) -> None:
    names = [name for name in supported_files(zoo) if name not in BAD_INPUT and name not in REFUSED]
    batched = 0
    for name in names:
        model = read_model((zoo / "zoo" / f"{name}.tflite").read_bytes())
        graph = model.subgraphs[0]
        if any(graph.tensors[index].shape_signature[:1] == (-1,) for index in graph.inputs):
            results = import_model(model, batch=3).outputs
            batched += any(info.type.shape[:1] == (3,) for info in results)
    assert batched > 40


@pytest.mark.parametrize("name", BAD_INPUT)
def test_a_bad_file_gets_its_error(name: str, zoo: Path) -> None:
    kind, part = BAD_INPUT[name]
    with pytest.raises(kind, match=part):
        load((zoo / "zoo" / f"{name}.tflite").read_bytes())


def test_benchmark_networks_import_at_any_batch(bench_model: Path) -> None:
    file = bench_model.read_bytes()
    for batch in (1, 3):
        imported = load(file, batch=batch)
        assert imported.inputs[0].type.shape[0] == batch
        assert imported.outputs[0].type.shape == (batch, 1000)
        assert {node.op.NAME for node in imported.graph.nodes} & {"qnn.shape", "qnn.pack"} == set()
