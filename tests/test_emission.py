"""Every kind of file that is built: libraries, assembly, weights, packages; equal builds give equal bytes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from aot_harness import CC, NM, STRICT, emission, planned, run_example, run_tool
from command_line import DIGITS
from conftest import ROOT

import qimport
from qimport import CompiledModel
from qimport.codegen.archive import archive
from qimport.codegen.backend import engine_of, object_code, optimized
from qimport.codegen.host import host_target, resolve_target
from qimport.codegen.interface import RESULTS
from qimport.codegen.memory_code import memory_code
from qimport.codegen.target import target_named
from qimport.emission import KINDS
from qimport.errors import ArgumentError, TargetError
from qimport.oracle import random_inputs
from qimport.toolchain import Tool, find_compiler, missing_compiler

MODEL, COPYING_MODEL = "digits_int8_ptq", "inception_uint8"
"""The second one needs memcpy and memset."""

CODE = {name: code for code, (name, _) in enumerate(RESULTS)}

EMULATOR = "qemu-aarch64"

LOADERS = {
    "host": (),
    "arm64": ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    "armv7": ("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"),
}
"""Target -> what runs programs that load shared libraries."""


def expect_host_bytes(command: Sequence[str | Path], model: str, *more: Path) -> None:
    """A program computes what the compiled model computes in this process; ``more`` files go first."""
    inputs, outputs, _ = planned(model, "reference")
    arrays = random_inputs(inputs, 7)
    (found,) = run_example(command, arrays, outputs, more)
    assert found.tobytes() == compiled(model).run(*arrays)[0].tobytes()


@functools.cache
def compiled(model: str) -> CompiledModel:
    """One of the project's models in this process."""
    return qimport.compile(ROOT / "models" / f"{model}.tflite")


def require_compiler_of(target: str) -> Tool:
    """A compiler for a target; without one the calling test is skipped."""
    found = find_compiler(resolve_target(target))
    if found is None:
        pytest.skip(missing_compiler(resolve_target(target)))
    return found


# Libraries


@pytest.mark.needs(CC, "ar", NM)
def test_static_libraries_have_an_index_and_hold_the_object(tmp_path: Path) -> None:
    files = emission(MODEL, "host", ("obj", "header", "lib", "example"), name="a name beyond 15 characters")
    objects, header, library, example = files.write(tmp_path / "with space")
    assert library.name == "liba_name_beyond_15_characters.a"
    extracted = subprocess.run(["ar", "p", library, objects.name], capture_output=True, check=True).stdout
    assert extracted == objects.read_bytes()
    index = run_tool(NM, "-s", library).split("\n\n")[0]
    assert [line.split()[0] for line in index.splitlines()[1:] if " in " in line] == files.api.functions
    run_tool(
        CC, *STRICT, "-o", "program", example, "-L.", "-la_name_beyond_15_characters", directory=header.parent
    )
    expect_host_bytes([header.parent / "program"], MODEL)


def test_archives_of_odd_and_long_members(tmp_path: Path) -> None:
    if shutil.which("ar") is None:
        pytest.skip("ar is not installed")
    members = {"odd.o": b"odd", "a member with a long name.o": b"even", "another_long_name.o": b"x" * 7}
    (tmp_path / "lib.a").write_bytes(archive({name: (content, ()) for name, content in members.items()}))
    assert run_tool("ar", "t", tmp_path / "lib.a").splitlines() == list(members)
    for name, content in members.items():
        assert run_tool("ar", "p", tmp_path / "lib.a", name) == content.decode()


@pytest.mark.needs("readelf")
@pytest.mark.parametrize("target", LOADERS)
def test_shared_libraries_need_nothing_and_show_the_api_only(target: str, tmp_path: Path) -> None:
    compiler, emulator = require_compiler_of(target), LOADERS[target]
    if emulator and shutil.which(emulator[0]) is None:
        pytest.skip(f"{emulator[0]} is not installed")
    files = emission(COPYING_MODEL, target, ("header", "example", "shared"))
    _, library, example = files.write(tmp_path)
    dynamic = run_tool("readelf", "-dW", library)
    assert "soname: [libinception_uint8.so]" in dynamic
    assert "NEEDED" not in dynamic
    assert "TEXTREL" not in dynamic
    symbols = [line.split() for line in run_tool("readelf", "-W", "--dyn-syms", library).splitlines()[4:]]
    assert sorted(words[-1] for words in symbols) == sorted(files.api.functions)
    assert all(words[6] != "UND" for words in symbols)
    segments = run_tool("readelf", "-lW", library)
    (stack,) = [line.split() for line in segments.splitlines() if "GNU_STACK" in line]
    assert stack[-2] == "RW"
    libraries = [f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-linception_uint8"]
    compiler.run(*STRICT, "-o", tmp_path / "program", example, *libraries)
    expect_host_bytes([*emulator, tmp_path / "program"], COPYING_MODEL)


def test_no_linker_is_one_sentence_before_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qimport.toolchain.find_linker", lambda _: None)
    with pytest.raises(TargetError, match="no compiler or linker for arm64 is installed"):
        emission(MODEL, "arm64", ("shared",))


def test_memory_functions_are_those_of_c() -> None:
    """Compared with the same slices of Python, at all small sizes, aligned or not, overlapping both ways."""
    engine = engine_of(object_code(memory_code(host_target()), host_target()), host_target())
    signature = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    copy, move = (signature(engine.get_function_address(name)) for name in ("memcpy", "memmove"))
    fill = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)(
        engine.get_function_address("memset")
    )
    draw = random.Random(0)
    room = ctypes.create_string_buffer(512)
    base = ctypes.addressof(room)
    for size in (*range(100), 128, 200):
        for function, to, start in (
            (copy, 300 + draw.randrange(8), draw.randrange(8)),
            (move, 100 + draw.randrange(100), 100 + draw.randrange(100)),
            (fill, draw.randrange(100), 0x1A5),
        ):
            content = bytearray(draw.randbytes(512))
            room.raw = bytes(content)
            source = start if function is fill else base + start
            assert function(base + to, source, size) == base + to
            new = bytes([start & 255]) * size if function is fill else content[start : start + size]
            content[to : to + size] = new
            assert room.raw == bytes(content), (function, size, to, start)


# Text


@pytest.mark.needs(CC)
def test_assembly_and_llvm_are_the_whole_program(tmp_path: Path) -> None:
    files = emission(COPYING_MODEL, "host", ("header", "asm", "llvm", "example"))
    _, assembly, llvm, example = files.write(tmp_path)
    assert files.translation.object_code is None
    run_tool(CC, *STRICT, "-o", "program", example, assembly, directory=tmp_path)
    expect_host_bytes([tmp_path / "program"], COPYING_MODEL)
    module, _ = optimized(llvm.read_text(), host_target())
    visible = [f.name for f in module.functions if not f.is_declaration and f.linkage.name == "external"]
    assert sorted(visible) == sorted(files.api.functions)


def test_code_for_arm64_leaves_the_register_of_the_platform_alone() -> None:
    assembly = emission(COPYING_MODEL, "arm64", ("asm",)).assembly
    assert re.search(r"\b[wx]17\b", assembly)
    assert not re.search(r"\b[wx]18\b", assembly)


# Weights


@pytest.mark.needs(CC)
def test_separate_weights(tmp_path: Path) -> None:
    kinds = ("obj", "header", "example", "weights")
    files = emission(MODEL, "host", kinds, separate=True)
    objects, header, example, weights = files.write(tmp_path)
    content = weights.read_bytes()
    assert objects.stat().st_size + len(content) // 2 < len(emission(MODEL, "host").object_code)
    assert f"_WEIGHTS_BYTES {len(content)} " in header.read_text()
    assert f"_WEIGHTS_CRC32 0x{zlib.crc32(content):08x}u " in header.read_text()
    run_tool(CC, *STRICT, "-o", "program", example, objects, directory=tmp_path)
    expect_host_bytes([tmp_path / "program"], MODEL, weights)
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 0x80]))
    for path, sentence in (
        (damaged, "does not belong to digits_int8_ptq.o"),
        (example, f"but digits_int8_ptq takes {len(content)}"),
    ):
        done = subprocess.run(
            [tmp_path / "program", path, path, path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert sentence in done.stderr


@pytest.mark.needs(CC)
def test_wrong_weights_give_their_code(tmp_path: Path) -> None:
    files = emission(MODEL, "host", ("shared", "weights"), separate=True, name="digits")
    library = ctypes.CDLL(str(files.write(tmp_path)[0]))
    content = files.translation.program.constants
    room = ctypes.create_string_buffer(len(content) + files.api.arena_bytes + 256)
    weights = -(-ctypes.addressof(room) // 64) * 64
    arena = -(-(weights + len(content)) // 64) * 64
    ctypes.memmove(weights, content, len(content))
    image, scores = ctypes.create_string_buffer(64), ctypes.create_string_buffer(10)
    ins, outs = ((ctypes.c_void_p * 1)(ctypes.addressof(data)) for data in (image, scores))

    def run(address: int | None) -> int:
        return int(library.digits_run(ins, outs, ctypes.c_void_p(arena), ctypes.c_void_p(address)))

    assert library.digits_weights_size() == len(content)
    assert {run(address) for address in (None, weights + 1, weights + 32)} == {CODE["ERROR_WEIGHTS"]}
    for address, code in ((None, "ERROR_WEIGHTS"), (weights + 4, "ERROR_WEIGHTS"), (weights, "OK")):
        assert library.digits_check_weights(ctypes.c_void_p(address)) == CODE[code]
    assert run(weights) == CODE["OK"]


# Packages


@pytest.mark.needs("cmake", CC)
@pytest.mark.parametrize("kind", ["lib", "obj", "shared"])
def test_cmake_finds_the_package(kind: str, tmp_path: Path) -> None:
    emission(MODEL, "host", (kind, "header", "example", "cmake"), name="digits").write(tmp_path / "my models")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(reader C)\n"
        'find_package(digits CONFIG REQUIRED PATHS "${CMAKE_SOURCE_DIR}/my models" NO_DEFAULT_PATH)\n'
        'add_executable(reader "my models/digits_example.c")\n'
        "target_link_libraries(reader PRIVATE digits::digits)\n"
    )
    run_tool("cmake", "-S", tmp_path, "-B", tmp_path / "out")
    run_tool("cmake", "--build", tmp_path / "out")
    expect_host_bytes([tmp_path / "out" / "reader"], MODEL)


# Equal bytes


def test_builds_are_equal_across_processes(tmp_path: Path) -> None:
    """Whatever the order of hashes, the number of processors and the folder."""
    kinds = [kind for kind in KINDS if kind != "shared" or find_compiler(target_named("arm64"))]
    arguments = ["build", DIGITS, "--target", "arm64", "--weights", "separate", "--threads", "2"]
    digests = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        processors = list(os.sched_getaffinity(0))[:number]
        command = [sys.executable, "-m", "qimport", *arguments, "--emit", ",".join(kinds), "-o", str(folder)]
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(number), "TMPDIR": str(tmp_path)},
            preexec_fn=lambda processors=processors: os.sched_setaffinity(0, processors),
            capture_output=True,
            check=True,
        )
        digests.append(
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        )
    assert len(digests[0]) == len(kinds)
    assert digests[0] == digests[1]


# Bare metal

STARTS = {
    "x86-64": r"""
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call begin\n");
static long system_call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
enum { WRITE = 1, EXIT = 60 };
""",
    "arm64": r"""
__asm__(".globl _start\n_start: mov x29, #0\n bl begin\n");
static long system_call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
enum { WRITE = 64, EXIT = 93 };
""",
}
"""What begins a program without C library, and its system calls."""

BARE_MAIN = r"""
void *memcpy(void *to, const void *from, size_t count) {
  volatile unsigned char *t = to;
  const unsigned char *f = from;
  while (count--) *t++ = *f++;
  return to;
}
void *memset(void *to, int value, size_t count) {
  volatile unsigned char *t = to;
  while (count--) *t++ = (unsigned char)value;
  return to;
}
static _Alignas(BARE_ARENA_ALIGNMENT) unsigned char arena[BARE_ARENA_BYTES];
static BARE_INPUT0_TYPE image[BARE_INPUT0_ELEMENTS];
static BARE_OUTPUT0_TYPE scores[BARE_OUTPUT0_ELEMENTS];
void begin(void) {
  const void *inputs[] = {image};
  void *outputs[] = {scores};
  int result;
  for (size_t i = 0; i < BARE_INPUT0_ELEMENTS; ++i) image[i] = (BARE_INPUT0_TYPE)(7 * i);
  result = bare_run(inputs, outputs, arena);
  system_call(WRITE, 1, (long)scores, sizeof scores);
  system_call(EXIT, result, 0, 0);
}
"""


@pytest.mark.parametrize("target", STARTS)
def test_objects_link_into_bare_metal_images(target: str, tmp_path: Path) -> None:
    """Without C library and start files, run as far as this machine or an emulator can."""
    compiler = require_compiler_of(target)
    native = host_target().architecture is target_named(target).architecture
    if not native and shutil.which(EMULATOR) is None:
        pytest.skip(f"{EMULATOR} is not installed")
    objects, _ = emission(COPYING_MODEL, target, ("obj", "header"), name="bare").write(tmp_path)
    (tmp_path / "main.c").write_text('#include "bare.h"\n' + STARTS[target] + BARE_MAIN)
    options = [
        "-std=c11",
        *STRICT[2:],
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-fno-stack-protector",
    ]
    compiler.run(*options, "-o", "image", "main.c", objects, directory=tmp_path)
    command = [tmp_path / "image"] if native else [EMULATOR, tmp_path / "image"]
    done = subprocess.run(command, capture_output=True, check=False)
    inputs, _, _ = planned(COPYING_MODEL, "reference")
    image = (7 * np.arange(np.prod(inputs[0].shape))).astype(inputs[0].dtype).reshape(inputs[0].shape)
    assert done.returncode == 0
    assert done.stdout == compiled(COPYING_MODEL).run(image)[0].tobytes()


# Requests that make no sense


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        (("obj", "heder"), "unknown kind of file 'heder'; did you mean 'header'"),
        (("weights",), "belongs to --weights separate"),
        (("header", "cmake"), "needs one of obj, lib and shared"),
    ],
)
def test_wrong_kinds_are_refused_in_a_sentence(kinds: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        emission(MODEL, "host", kinds)
