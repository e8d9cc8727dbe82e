"""The C side of a compiled model: headers, example programs and what the documentation shows."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aot_harness import (
    CC,
    CXX,
    NM,
    STRICT,
    Tensor,
    build,
    build_graph,
    link_example,
    planned,
    run_example,
    run_tool,
    single_scale,
    sum_of_two,
    tensor,
)

from qimport.codegen import header
from qimport.codegen.example import example_text
from qimport.codegen.interface import (
    C_TYPES,
    TYPE_NUMBERS,
    Interface,
    Weights,
    c_float,
    c_identifier,
    c_text,
)
from qimport.codegen.target import target_named
from qimport.ir.graph import Graph, Value
from qimport.ir.types import DTYPES, TensorType
from qimport.numerics import NUMERICS, Numerics
from qimport.oracle import SUPPORTED_VERSION
from qimport.version import INTERPRETER

FED_DTYPES = [name for name in DTYPES if name not in ("int2", "int4")]
"""Element types of inputs and outputs: all but those that occur as constants only."""

# The header


def macros(path: Path) -> dict[str, str]:
    """What a header defines."""
    return dict(re.findall(r"^#define (\w+) (.+?)(?: /\*.*)?$", path.read_text(), re.MULTILINE))


@pytest.mark.parametrize("numerics", NUMERICS)
def test_headers_say_what_was_built(numerics: Numerics, tmp_path: Path) -> None:
    found = macros(build(tmp_path, "digits_uint8", "arm64-dotprod", numerics)[1])
    inputs, _, plan = planned("digits_uint8", numerics)
    said = {key.removeprefix("DIGITS_UINT8_"): value for key, value in found.items()}
    assert said["NUMERICS"] == f'"{numerics}"'
    assert said["TARGET"] == '"arm64-dotprod"'
    assert said["TARGET_FEATURES"] == '"dotprod,neon"'
    assert said["ARENA_BYTES"] == str(plan.arena_bytes)
    assert (said["INPUTS"], said["OUTPUTS"]) == ("1", "1")
    assert said["INPUT0_NAME"] == f'"{inputs[0].name}"'
    assert said["INPUT0_DIMS"] == "{1, 8, 8, 1}"
    assert (said["INPUT0_TYPE"], said["INPUT0_BYTES"]) == ("uint8_t", "64")
    assert np.float32(said["INPUT0_SCALE"].removesuffix("f")) == np.float32(inputs[0].scales[0])
    assert said["INPUT0_ZERO_POINT"] == f"({inputs[0].zero_points[0]})"


def test_the_interpreters_version_is_the_oracles() -> None:
    assert INTERPRETER.split() == ["ai-edge-litert", SUPPORTED_VERSION]


def test_every_element_type_has_a_c_type() -> None:
    assert list(C_TYPES) == FED_DTYPES


def odd_tensors() -> list[Tensor]:
    """Everything that could break a header."""
    return [
        Tensor('a "quoted" \\ name??/ */ /* // %s\n\t\0', (2, 3), np.int8, (0.1,), (-128,)),
        Tensor("größe: 模型", (), np.float32),
        Tensor("x" * 5000, (1,), np.bool_),
        Tensor("channels", (2, 2), np.uint8, (1.0, 1e-20), (0, 255), axis=1),
        *(Tensor(name, (1,), name) for name in FED_DTYPES),
    ]


def odd_interface(**changes: Any) -> Interface:
    """A header's worth of odd tensors."""
    api = Interface(
        "*/ ??/ odd", "odd", "odd", tuple(odd_tensors()), tuple(odd_tensors()), 0, 64,
        target_named("x86-64-amx"), "xnnpack", state_bytes=64, threads=3, weights=Weights(100, 0xFFFFFFFF),
    )  # fmt: skip
    return replace(api, **changes)


@pytest.mark.needs(CC, CXX)
def test_headers_of_odd_names_compile_as_c_and_cpp(tmp_path: Path) -> None:
    (tmp_path / "odd.h").write_text(header.header_text(odd_interface()))
    body = (
        '#define ODD_TENSOR_TABLES\n#include "odd.h"\n#include "odd.h"\n'
        "static const int dims[] = ODD_INPUT0_DIMS;\n"
        "static const float scales[] = ODD_INPUT3_SCALES;\n"
        "static const char *const names[] = {ODD_INPUT0_NAME, ODD_INPUT1_NAME, ODD_INPUT2_NAME};\n"
        "int main(void) {\n"
        "  return !(sizeof(ODD_INPUT1_TYPE) == ODD_INPUT1_BYTES && dims[1] == 3 && scales[1] > 0.0f\n"
        "           && names[0] && ODD_INPUT0_SCALE == 0.1f && ODD_INPUT0_ZERO_POINT == -128\n"
        "           && odd_inputs[0].type == ODD_TYPE_INT8 && odd_inputs[0].scales[0] == 0.1f\n"
        "           && odd_outputs[3].axis == 1 && odd_outputs[3].scale_count == 2\n"
        "           && odd_outputs[3].zero_points[1] == 255 && odd_outputs[1].scales == NULL\n"
        "           && ODD_API_VERSION == 1 && odd_result_text(ODD_ERROR_ARENA)[0] == 'a');\n}\n"
    )
    for compiler, standard in ((CC, "c99"), (CC, "c11"), (CXX, "c++98"), (CXX, "c++17")):
        suffix = "c" if compiler == CC else "cpp"
        (tmp_path / f"use.{suffix}").write_text(body)
        options = [*STRICT[1:], f"-std={standard}"]
        if standard == "c++98":
            options.append("-Wno-long-long")
        run_tool(compiler, *options, "-o", "use", f"use.{suffix}", directory=tmp_path)
        run_tool(tmp_path / "use")


@pytest.mark.needs(CC, NM)
def test_an_included_header_takes_no_room(tmp_path: Path) -> None:
    (tmp_path / "odd.h").write_text(header.header_text(odd_interface()))
    (tmp_path / "use.c").write_text('#include "odd.h"\nint use(void) { return ODD_OK; }\n')
    run_tool(CC, *STRICT[:-1], "-O0", "-c", "use.c", directory=tmp_path)
    assert [line.split()[1:] for line in run_tool(NM, tmp_path / "use.o").splitlines()] == [["T", "use"]]


def test_element_types_have_the_numbers_of_the_schema() -> None:
    wanted = {"float32": 1, "int8": 9, "uint32": 16}
    assert set(TYPE_NUMBERS) == set(C_TYPES)
    assert {name: TYPE_NUMBERS[name] for name in wanted} == wanted


@pytest.mark.needs(CC)
def test_c_reads_names_and_scales_back(tmp_path: Path) -> None:
    name = odd_tensors()[0].name.replace("\0", "") + "größe"
    scales = [np.float32(x) for x in (1, 0.1, 1e-38, 3.4e38, 16777216, 1e10, 2**-23, 0.0039215689)]
    (tmp_path / "print.c").write_text(
        "#include <stdio.h>\nint main(void) { const float s[] = {"
        + ", ".join(c_float(float(scale)) for scale in scales)
        + '}; fwrite(s, 1, sizeof s, stdout); fputs("'
        + c_text(name)
        + '", stdout); return 0; }\n'
    )
    run_tool(CC, *STRICT, "-o", "print", "print.c", directory=tmp_path)
    printed = subprocess.run([tmp_path / "print"], capture_output=True, check=True).stdout
    assert printed == np.array(scales, np.float32).tobytes() + name.encode()


@pytest.mark.needs(CXX)
def test_cpp_calls_the_model(tmp_path: Path) -> None:
    objects, _, _ = build(tmp_path, name="digits")
    (tmp_path / "main.cpp").write_text(
        '#include "digits.h"\n'
        "alignas(DIGITS_ARENA_ALIGNMENT) static unsigned char arena[DIGITS_ARENA_BYTES];\n"
        "int main() {\n"
        "  static DIGITS_INPUT0_TYPE image[DIGITS_INPUT0_ELEMENTS];\n"
        "  static DIGITS_OUTPUT0_TYPE scores[DIGITS_OUTPUT0_ELEMENTS];\n"
        "  const void *inputs[] = {image};\n  void *outputs[] = {scores};\n"
        "  return digits_run(inputs, outputs, arena);\n}\n"
    )
    run_tool(CXX, "-std=c++11", *STRICT[1:], "-o", "main", "main.cpp", objects, directory=tmp_path)
    run_tool(tmp_path / "main")


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("digits", "digits"),
        ("mobilenet-v2_1.0 (quant)", "mobilenet_v2_1_0_quant"),
        ("1model", "model_1model"),
        ("größe", "gro_e"),
        ("modèle", "modele"),
        ("模型", "model"),
        ("", "model"),
        ("__x__", "x"),
        ("Mixed Case", "Mixed_Case"),
    ],
)
def test_names_become_identifiers(name: str, identifier: str) -> None:
    assert c_identifier(name) == identifier


# The example program


@pytest.mark.needs(CC)
def test_examples_of_odd_names_compile(tmp_path: Path) -> None:
    api = odd_interface()
    (tmp_path / "odd.h").write_text(header.header_text(api))
    (tmp_path / "odd_example.c").write_text(example_text(api))
    run_tool(CC, *STRICT, "-c", "odd_example.c", directory=tmp_path)


@pytest.mark.needs(CC)
def test_the_example_of_a_model_without_inputs(tmp_path: Path) -> None:
    value = Value(TensorType("int8", (2,), single_scale(0.5)), "x", data=np.array([3, -4], np.int8))
    program = link_example(build_graph(tmp_path, Graph("tiny", (), (value,), ())))
    (found,) = run_example([program], [], [tensor("x", value.type)])
    assert found.tolist() == [3, -4]


@pytest.mark.needs(CC)
def test_the_example_explains_wrong_files(tmp_path: Path) -> None:
    program = link_example(build(tmp_path / "with space"))

    def run(*arguments: str | Path) -> tuple[int, str]:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    good, out = tmp_path / "good.raw", tmp_path / "out.raw"
    good.write_bytes(bytes(64))
    assert run() == (2, "usage: example IN0.raw OUT0.raw\n")
    assert run(good, out, out)[0] == 2
    assert run(tmp_path / "absent", out) == (1, f"{tmp_path}/absent: No such file or directory\n")
    for size, word in ((63, "only 63"), (65, "more than 64")):
        (tmp_path / "bad.raw").write_bytes(bytes(size))
        code, text = run(tmp_path / "bad.raw", out)
        assert (code, f"holds {word} bytes, but image takes 64" in text) == (1, True), text
    assert run(tmp_path, out)[0] == 1
    assert not out.exists()
    assert run(good, tmp_path / "absent" / "out.raw")[0] == 1
    assert run(good, out) == (0, "")
    assert out.stat().st_size == 10


@pytest.mark.needs(CC)
def test_examples_take_several_tensors_in_order(tmp_path: Path) -> None:
    graph = sum_of_two()
    program = link_example(build_graph(tmp_path, graph))
    a, b = np.arange(15, dtype=np.int8).reshape(3, 5), np.full((3, 5), 3, np.int8)
    (found,) = run_example([program], [a, b], [tensor("sum", graph.outputs[0].type)])
    # b is 0, so the sum is a in steps of 0.045 instead of 0.021
    assert found.tolist() == (3 + np.rint((a - 3.0) * 0.021 / 0.045)).tolist()
