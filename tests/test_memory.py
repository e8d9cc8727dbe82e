"""The memory report: flash and RAM of a compiled model, and its arena over time."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from qimport.compiler import trace
from qimport.memory import Timeline
from tests.command_line import DIGITS, MOBILE, fail, succeed


def test_every_step_knows_what_is_in_use() -> None:
    timeline = Timeline.of(trace(MOBILE).plan)
    assert timeline.peak is not None
    assert timeline.peak.nbytes <= timeline.arena == max(piece.end for piece in timeline.pieces)
    assert timeline.peak.nbytes == max(moment.nbytes for moment in timeline.moments)
    pictures = list(timeline.maps(32))
    assert len(pictures) == len(timeline.moments)
    assert all(len(picture) == 32 and set(picture) <= set(".=#") for picture in pictures)
    assert "#" in pictures[timeline.peak.step]


def test_the_report_and_its_drawing(tmp_path: Path) -> None:
    drawing = tmp_path / "arena.svg"
    options = ("--memory", "--target", "cortex-m4")
    found = json.loads(succeed("inspect", DIGITS, *options, "--json", "-o", drawing))
    bytes_ = found["footprint"]
    assert bytes_["flash"] == sum(bytes_[kind] for kind in ("code", "weights", "tables", "other"))
    assert bytes_["ram"] == found["arena_bytes"] + bytes_["stack"]["nbytes"]
    assert bytes_["weights"] >= 9528
    assert found["peak"]["nbytes"] <= found["arena_bytes"]
    shapes = [item for item in ElementTree.parse(drawing).iter() if item.tag.endswith("title")]
    assert len(shapes) == len(found["pieces"])
    text = succeed("inspect", DIGITS, *options)
    assert f"flash {bytes_['flash']:,} bytes" in text
    assert f"peak: {found['peak']['nbytes']:,} bytes in step {found['peak']['step']}, operator" in text


def test_drawings_that_cannot_be_made(tmp_path: Path) -> None:
    assert "must end in .svg or .png" in fail(4, "inspect", DIGITS, "--memory", "-o", tmp_path / "arena.txt")
    assert "only --memory draws" in fail(4, "inspect", DIGITS, "-o", tmp_path / "arena.svg")
    assert "choose one" in fail(4, "inspect", DIGITS, "--memory", "--stage", "plan")
    if importlib.util.find_spec("matplotlib") is None:
        assert "needs matplotlib" in fail(4, "inspect", DIGITS, "--memory", "-o", tmp_path / "arena.png")


def test_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    succeed("inspect", DIGITS, "--memory", "-o", tmp_path / "arena.png")
    assert (tmp_path / "arena.png").read_bytes().startswith(b"\x89PNG")
