"""Kernels for other processors: objects need no run-time, and an emulated AArch64 gives the same bytes."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernel_harness import emit, optimized, same_bytes
from test_codegen_elementwise import ROUNDINGS, accumulators, factors, kernel_of, quantized_add
from test_codegen_kernels import WINDOWS, codes, single, softmax_table, window_result

from qimport import prim
from qimport.codegen.target import target_named
from qimport.fixedpoint import Rounding
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel

COMPILER, EMULATOR, NM = "aarch64-linux-gnu-gcc", "qemu-aarch64", "nm"
ALLOWED = {"memcpy", "memset", "memmove"}

DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void kernel(void *, void *, void *, void *, void *);
int main(void) {
  uint64_t count, size;
  void *argument[5] = {0};
  if (fread(&count, 8, 1, stdin) != 1 || count > 5) return 1;
  for (uint64_t i = 0; i < count; ++i) {
    if (fread(&size, 8, 1, stdin) != 1) return 1;
    argument[i] = aligned_alloc(64, (size + 127) / 64 * 64);
    if (fread(argument[i], 1, size, stdin) != size) return 1;
  }
  kernel(argument[0], argument[1], argument[2], argument[3], argument[4]);
  return fwrite(argument[count - 1], 1, size, stdout) != size;
}
"""


def rescale_kernel(
    rounding: Rounding, scales: np.ndarray, clamp: bool, leftover: int | None = None
) -> Kernel:
    """Accumulators times per-channel factors."""
    b, x = Builder(), Value(TensorType("int32", (12, len(scales))), "x")
    other: Rounding = "double_up" if rounding == "double_away" else "double_away"
    op = prim.Rescale(rounding) if leftover is None else prim.Rescale(rounding, other, leftover)
    y = b.emit(op, (x, *map(b.constant, factors(rounding, scales))), x.type)
    if clamp:
        y = b.emit(prim.Clamp(-11, -100, 119), (y,), TensorType("int8", x.type.shape))
    return kernel_of(b.nodes, y)


def lut_kernel(size: int) -> Kernel:
    """A table of random bytes."""
    b, x = Builder(), Value(TensorType("int8", (size,)), "x")
    table = b.constant(codes(np.random.default_rng(3), "int8", (256,)))
    y = b.emit(prim.Lut(), (x, table), x.type)
    return kernel_of(b.nodes, y)


def softmax_kernel(kind: str) -> Kernel:
    """Rows of 37."""
    b, x = Builder(), Value(TensorType("int8", (5, 37)), "x")
    y = b.emit(prim.Softmax(kind), (x, b.constant(softmax_table(kind))), x.type)  # type: ignore[arg-type]
    return kernel_of(b.nodes, y)


def to_int_kernel(rounding: str) -> Kernel:
    """Floats to int32."""
    b, x = Builder(), Value(TensorType("float32", (64,)), "x")
    y = b.emit(prim.ToInt(rounding), (x,), TensorType("int32", (64,)))  # type: ignore[arg-type]
    return kernel_of(b.nodes, y)


def addition() -> Kernel:
    """A fused quantized addition."""
    b, _, result = quantized_add((3, 23), (3, 23))
    return kernel_of(b.nodes, result)


def window_kernel(kind: str) -> Kernel:
    """A clipped window."""
    op = prim.Window(kind, *WINDOWS[1][1:])  # type: ignore[arg-type]
    shape = (*WINDOWS[1][0], 37)
    dtype = "int32" if kind == "sum" else "int8"
    return single(op, [TensorType("int8", shape)], TensorType(dtype, window_result(op, shape)))


def kernels() -> dict[str, Kernel]:
    """One kernel of every kind, and every arithmetic with instructions of its own."""
    rng = np.random.default_rng(1)
    shifts, mixed = np.exp2(rng.uniform(-31, -1, 23)), np.exp2(rng.uniform(-33, 6, 23))
    found = {f"{r}-clamp": rescale_kernel(r, shifts, True) for r in ROUNDINGS}
    found.update({f"{r}-mixed": rescale_kernel(r, mixed, False) for r in ROUNDINGS})
    found.update({f"{r}-leftover": rescale_kernel(r, shifts, True, 16) for r in ROUNDINGS[:2]})
    found.update({f"lut-{size}": lut_kernel(size) for size in (3, 256, 300)})
    found.update({f"softmax-{kind}": softmax_kernel(kind) for kind in ("fixed", "float")})
    found.update({f"to_int-{rounding}": to_int_kernel(rounding) for rounding in ("even", "away")})
    found.update({f"window-{kind}": window_kernel(kind) for kind in ("sum", "max")})
    x = TensorType("int8", (2, 5, 70))
    found["reduce"] = single(prim.Reduce("sum", (1, 2)), [x], TensorType("int32", (2, 1, 1)))
    found["pad"] = single(prim.Pad((0, 1, 2), (0, 0, 3), -7), [x], TensorType("int8", (2, 6, 75)))
    found["addition"] = addition()
    return found


KERNELS = kernels()


def object_code(kernel: Kernel, target: str) -> bytes:
    """The kernel as an object file."""
    resolved = target_named(target)
    parsed, machine = optimized(emit(kernel, resolved)[0], resolved)
    return bytes(machine.emit_object(parsed))


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4", "arm64"])
@pytest.mark.parametrize("name", KERNELS)
def test_objects_need_no_run_time(name: str, target: str, tmp_path: Path) -> None:
    """Undefined symbols are memcpy, memset and memmove at most."""
    if shutil.which(NM) is None:
        pytest.skip("nm is not installed")
    path = tmp_path / "kernel.o"
    path.write_bytes(object_code(KERNELS[name], target))
    lines = subprocess.run([NM, "-u", path], capture_output=True, text=True, check=True).stdout.split("\n")
    assert {line.split()[-1] for line in lines if line.strip()} <= ALLOWED


def emulated(kernel: Kernel, operands: Sequence[Array], directory: Path) -> Array:
    """The result an emulated AArch64 computes."""
    (directory / "driver.c").write_text(DRIVER)
    (directory / "kernel.o").write_bytes(object_code(kernel, "arm64"))
    command = [COMPILER, "-O1", "-static", "-o", "run", "driver.c", "kernel.o"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    result = kernel.result.type
    tables = emit(kernel, target_named("arm64"))[1].pack()
    blobs = [*(array.tobytes() for array in operands), tables, bytes(result.nbytes)]
    stream = struct.pack("<Q", len(blobs)) + b"".join(struct.pack("<Q", len(b)) + b for b in blobs)
    run = subprocess.run([EMULATOR, directory / "run"], input=stream, capture_output=True, check=True)
    return np.frombuffer(run.stdout, result.numpy).reshape(result.shape)


@pytest.mark.parametrize("name", KERNELS)
def test_emulated_arm64_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    """NEON's own rounding instructions and table look-ups against the prim interpreter."""
    for tool in (COMPILER, EMULATOR):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    kernel, rng = KERNELS[name], np.random.default_rng(2)
    operands = [
        accumulators(rng, value.type.shape)
        if value.type.dtype == "int32"
        else codes(rng, value.type.dtype, value.type.shape)
        for value in kernel.graph.inputs
    ]
    with np.errstate(invalid="ignore"):
        wanted = interpret(kernel.graph, operands)[0]
    assert same_bytes(emulated(kernel, operands, tmp_path), wanted)


def test_llvm_has_the_back_ends() -> None:
    """The installed llvmlite generates AArch64 code."""
    assert llvm.Target.from_triple(target_named("arm64").triple).name == "aarch64"
