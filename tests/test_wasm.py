"""WebAssembly objects: what they need from others."""

from __future__ import annotations

from pathlib import Path

import pytest
from aot_harness import build

from qimport.codegen import wasm
from qimport.codegen.backend import object_code
from qimport.codegen.target import target_named
from qimport.errors import CompilerBug

CALLER = """
declare float @fmaxf(float, float)
@table = external global [4 x i32]
@here = internal constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
define float @caller(float %x, i32 %i, ptr %room) {
  %slot = alloca [64 x i8]
  store ptr %slot, ptr %room
  %a = getelementptr i32, ptr @table, i32 %i
  %b = getelementptr i32, ptr @here, i32 %i
  %c = load i32, ptr %a
  %d = load i32, ptr %b
  %e = add i32 %c, %d
  %f = sitofp i32 %e to float
  %y = call float @fmaxf(float %x, float %f)
  ret float %y
}
"""


def test_functions_and_data_of_others_are_found() -> None:
    """The stack pointer and the memory, which linkers make, are not among them."""
    assert wasm.undefined_symbols(object_code(CALLER, target_named("wasm32"))) == {"fmaxf", "table"}


def test_a_model_needs_nothing(tmp_path: Path) -> None:
    content = build(tmp_path, "mobile_int8", "wasm32")[0].read_bytes()
    assert not wasm.undefined_symbols(content)
    code, data = wasm.code_and_data_bytes(content)
    assert 0 < code < data < code + data < len(content) < code + data + 4000


def test_another_file_is_our_bug() -> None:
    with pytest.raises(CompilerBug, match="WebAssembly"):
        wasm.undefined_symbols(object_code(CALLER, target_named("arm64")))
