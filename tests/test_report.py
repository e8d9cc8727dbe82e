"""Rows, multiply-accumulates and sums of the report."""

from __future__ import annotations

import json

import pytest

import qimport.prim
import qimport.qnn.conv2d
import qimport.qnn.dense
import qimport.qnn.depthwise_conv2d  # noqa: F401  (registers the operations)
from qimport.ir.text import parse_graph
from qimport.report import node_rows, summarize

MODEL = """
graph @model(%x: i8[1x8x8x3]<0.5:-1>) {
  %w = constant i8[16x3x3x3]<0.25:0> splat(1)
  %b = constant i32[16]<0.125:0> splat(0)
  %conv = qnn.conv2d(%x, %w, %b) {padding=((1, 1), (1, 1)), stride=(2, 2)} : i8[1x4x4x16]<0.5:2> from "conv"
  %dw = constant i8[1x3x3x16]<0.25:0> splat(1)
  %depth = qnn.depthwise_conv2d(%conv, %dw, %b) : i8[1x2x2x16]<0.5:2>
  %flat = qnn.reshape(%depth) : i8[1x64]<0.5:2>
  %dense_w = constant i8[10x64]<0.25:0> splat(1)
  %y = qnn.dense(%flat, %dense_w, _) : i8[1x10]<0.5:2>
  return %y
}
"""


def test_rows() -> None:
    rows = node_rows(parse_graph(MODEL))
    assert [row.macs for row in rows] == [4 * 4 * 16 * 27, 2 * 2 * 16 * 9, 0, 640]
    assert [row.weight_bytes for row in rows] == [16 * 27 + 64, 9 * 16 + 64, 0, 640]
    first = rows[0]
    assert (first.index, first.operator, first.name, first.origin) == (0, "qnn.conv2d", "conv", "conv")
    assert (first.shape, first.type) == ((1, 4, 4, 16), "i8 0.5:2")


def test_summary_counts_shared_constants_once_and_is_json() -> None:
    summary = summarize(parse_graph(MODEL))
    assert json.loads(json.dumps(summary)) == summary
    assert summary["weight_bytes"] == 16 * 27 + 64 + 9 * 16 + 640
    assert summary["macs"] == sum(row["macs"] for row in summary["operators"]) == 6912 + 576 + 640
    assert summary["operator_counts"] == {
        "qnn.conv2d": 1, "qnn.dense": 1, "qnn.depthwise_conv2d": 1, "qnn.reshape": 1
    }  # fmt: skip
    assert summary["inputs"] == [
        {
            "name": "x",
            "dtype": "int8",
            "shape": [1, 8, 8, 3],
            "quantization": {"scales": [0.5], "zero_points": [-1], "axis": None},
        }
    ]


@pytest.mark.parametrize(("groups", "depth"), [(1, 4), (2, 2), (4, 1)])
def test_macs_of_the_primitive(groups: int, depth: int) -> None:
    graph = parse_graph(
        f"""graph @g(%x: i8[1x5x5x4]<0.5:0 , 1:0, 1:0, 1:0 @3>) {{
          %w = constant i8[8x3x3x{depth}] splat(1)
          %b = constant i32[8] splat(0)
          %y = prim.mac(%x, %w, %b) {{groups={groups}}} : i32[1x3x3x8]
          return %y
        }}"""
    )
    assert node_rows(graph)[0].macs == 3 * 3 * 8 * 9 * depth
