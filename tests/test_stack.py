"""Stack frames: read from assembly as large as LLVM says they are, and never larger than a target allows."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

from qimport.codegen.aot import interface_of, translate
from qimport.codegen.footprint import footprint
from qimport.codegen.host import resolve_target
from qimport.codegen.stack import Frame, deepest, frames
from qimport.codegen.target import target_descriptions
from qimport.compiler import trace
from qimport.errors import CompilerBug, TargetError

TRIPLES = {
    "x86_64-unknown-linux-gnu": ("x86-64", "+avx512f"),
    "aarch64-unknown-linux-gnu": ("generic", ""),
    "armv7-unknown-linux-gnueabihf": ("cortex-a7", "+neon"),
    "thumbv7em-unknown-none-eabihf": ("cortex-m4", ""),
    "thumbv8.1m.main-unknown-none-eabihf": ("cortex-m55", ""),
    "riscv64-unknown-linux-gnu": ("generic-rv64", "+m,+a,+f,+d,+c"),
    "wasm32-unknown-unknown": ("generic", ""),
}
"""Processor and features that decide how a frame is made."""

SIZES = ((10, 4), (100, 64), (900, 16), (5000, 64), (70000, 64))
"""Words in a frame and their alignment."""

SAMPLE = ("x86-64-v3", "arm64-dotprod", "cortex-m4", "riscv64")
"""Targets that are always compiled for; QIMPORT_TARGETS in the environment adds the others."""

PROGRAM = """
import sys
import llvmlite.binding as llvm

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple, cpu, features, *sizes = sys.argv[1:]
arguments = ", ".join(["i32 1"] * 9)
functions = "".join(
    f'''
define void @frame_{size}(ptr %p, double %x) nounwind "warn-stack-size"="0" {{
  %a = alloca [{size} x i32], align {align}
  call void @use_it(ptr %a, {arguments})
  %y = call double @double_it(double %x)
  %z = call double @double_it(double %x)
  %sum = fadd double %y, %z
  store double %sum, ptr %p
  call void @use_it(ptr %a, {arguments})
  ret void
}}'''
    for size, align in (item.split(",") for item in sizes)
)
numbers = ", ".join(["i32"] * 9)
declared = f"declare void @use_it(ptr, {numbers}) declare double @double_it(double)"
module = llvm.parse_assembly(declared + functions)
machine = llvm.Target.from_triple(triple).create_target_machine(
    cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small"
)
module.triple, module.data_layout = triple, str(machine.target_data)
print(machine.emit_assembly(module))
"""


@pytest.mark.parametrize("triple", TRIPLES)
def test_frames_are_what_llvm_says(triple: str) -> None:
    """LLVM leaves out what is lost to alignment and, on x86, what is pushed: at most 256 bytes here."""
    arguments = [triple, *TRIPLES[triple], *(f"{size},{align}" for size, align in SIZES)]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    said = {name: int(size) for size, name in re.findall(r"size \((\d+)\).*in function '(\w+)'", run.stderr)}
    found = frames(run.stdout, triple)
    assert list(found) == list(said) == [f"frame_{size}" for size, _ in SIZES]
    for (size, _), frame in zip(SIZES, found.values(), strict=True):
        assert 4 * size <= said[f"frame_{size}"] <= frame.nbytes <= said[f"frame_{size}"] + 256
        assert {"use_it", "double_it"} <= frame.names


def test_what_cannot_be_followed_is_an_error() -> None:
    with pytest.raises(CompilerBug, match=r"cannot follow .*subq"):
        frames("f_x:\n\tsubq\t%rax, %rsp\n\tretq\n", "x86_64-unknown-linux-gnu")


def test_returns_on_a_condition_leave_the_frame_in_place() -> None:
    """And loads and stores where the pointer is do not move it."""
    lines = (
        "push\t{r4, lr}",
        "sub\tsp, #68",
        "stm.w\tsp, {r0, r1}",
        "vstmia\tsp, {d18, d19}",
        "ldmib\tsp, {r0, r1}",
        "it\ths",
        "addhs\tsp, #68",
        "pophs\t{r4, pc}",
    )
    text = "f_x:\n" + "".join(f"\t{line}\n" for line in (*lines, "push\t{r5}", "bx\tlr"))
    assert frames(text, "thumbv7em-unknown-none-eabihf")["f_x"].nbytes == 80


def test_the_deepest_chain() -> None:
    functions = {
        "run": Frame(16, frozenset({"left", "right", "memcpy"})),
        "left": Frame(100, frozenset()),
        "right": Frame(8, frozenset({"leaf"})),
        "leaf": Frame(96, frozenset()),
    }
    stack = deepest(functions, "run")
    assert (stack.nbytes, stack.chain, stack.largest) == (120, ("run", "right", "leaf"), 100)
    functions["leaf"] = Frame(96, frozenset({"right"}))
    with pytest.raises(CompilerBug, match="calls itself"):
        deepest(functions, "run")


EVERY_TARGET = "QIMPORT_TARGETS" in os.environ


@pytest.mark.parametrize("name", target_descriptions() if EVERY_TARGET else SAMPLE)
def test_frames_of_a_network(name: str) -> None:
    """Depthwise, pointwise and dense layers, in float32 and integer steps, on every target."""
    stages = trace(ROOT / "models/mobile_int8.tflite", name)
    target = resolve_target(name)
    api = interface_of("m", stages.inputs, stages.outputs, stages.plan, target, "reference")
    try:
        found = footprint(translate(api, stages.plan), stages.plan)
    except TargetError as error:
        pytest.skip(str(error))
    assert found.stack.chain[0].endswith("_run")
    assert 0 < found.stack.largest <= target.architecture.stack_bytes
    assert found.stack.largest <= found.stack.nbytes <= found.stack.largest + 2048
    assert found.code > 4096
    assert found.weights > 8192
    assert found.arena == stages.plan.arena_bytes
