"""Kernels for other processors: objects need no run-time, and an emulated AArch64 gives the same bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from emulated_kernels import check_emulated
from emulator import PLATFORMS
from kernel_harness import KernelModule
from test_codegen_elementwise import ROUNDINGS, accumulators, factors, kernel_of, quantized_add
from test_codegen_kernels import WINDOWS, codes, single, softmax_table, window_result

from qimport import prim
from qimport.codegen.table import choose
from qimport.codegen.target import target_named
from qimport.fixedpoint import Rounding
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel
from qimport.prim.scale_codes import limbs

NM = "nm"
ALLOWED = {"memcpy", "memset", "memmove"}


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


def pair_sum_kernel(size: int) -> Kernel:
    """Weighted sums of codes of two types."""
    b = Builder()
    a, c = (Value(TensorType(dtype, (5, size)), dtype) for dtype in ("int8", "uint8"))
    constant = b.constant(np.array([2**28 - 5, -(2**26) - 1, 2**36 + 1], np.int64))
    return kernel_of(b.nodes, b.emit(prim.PairSum(29, -128, 99), (a, c, constant), a.type))


def scale_codes_kernel() -> Kernel:
    """Columns times slopes."""
    b, a = Builder(), Value(TensorType("int8", (5, 23)), "a")
    numbers = np.random.default_rng(4).integers(-(2**28), 2**28, (2, 1, 23))
    operands = [*limbs(*numbers), np.array([12345], np.int32)]
    op = prim.ScaleCodes(-7, 27, 3, -128, 99)
    return kernel_of(b.nodes, b.emit(op, (a, *map(b.constant, operands)), a.type))


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
    found.update({f"pair_sum-{size}": pair_sum_kernel(size) for size in (3, 70)})
    found["scale_codes"] = scale_codes_kernel()
    tiny = TensorType("float32", (70,))
    found["subnormal"] = single(prim.Binary("sub"), [tiny, tiny], tiny)
    found["compare"] = single(prim.Compare("less"), [tiny, tiny], TensorType("bool", (70,)))
    return found


KERNELS = kernels()


def module_of_all(target: str) -> KernelModule:
    """Every kernel for ``target``."""
    module = KernelModule(target_named(target))
    for number, kernel in enumerate(KERNELS.values()):
        module.add(kernel, name=f"kernel_{number}")
    return module


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4", "arm64"])
def test_objects_need_no_run_time(target: str, tmp_path: Path) -> None:
    """Undefined symbols are memcpy, memset and memmove at most."""
    if shutil.which(NM) is None:
        pytest.skip("nm is not installed")
    path = tmp_path / "kernels.o"
    path.write_bytes(module_of_all(target).object_code())
    lines = subprocess.run([NM, "-u", path], capture_output=True, text=True, check=True).stdout.split("\n")
    assert {line.split()[-1] for line in lines if line.strip()} <= ALLOWED


def random_elements(rng: np.random.Generator, type_: TensorType) -> Array:
    """Sums, codes, or floats that are hardly larger than the smallest ones."""
    if type_.dtype == "int32":
        return accumulators(rng, type_.shape)
    if type_.dtype == "float32":
        return rng.integers(0, 2**25, type_.shape).astype(np.uint32).view(np.float32)
    return codes(rng, type_.dtype, type_.shape)


@pytest.mark.parametrize("target", ["arm64", "armv7", "riscv64", "cortex-m4", "cortex-m55"])
def test_emulated_kernels_give_the_same_bytes(target: str, tmp_path: Path) -> None:
    """A target's own instructions and what LLVM makes of all others against the prim interpreter."""
    PLATFORMS[target].skip_if_missing()
    rng = np.random.default_rng(2)
    operands = [[random_elements(rng, value.type) for value in k.graph.inputs] for k in KERNELS.values()]
    wrong = check_emulated(module_of_all(target), operands, tmp_path)
    assert not wrong, [list(KERNELS)[int(name.removeprefix("kernel_"))] for name in wrong]


def test_sums_of_bytes_do_not_wrap(tmp_path: Path) -> None:
    """More bytes than 16 bits hold the sum of, all at one end of their range or anything."""
    PLATFORMS["arm64"].skip_if_missing()
    module, operands = KernelModule(target_named("arm64")), []
    for dtype, ends in (("int8", (-128, 127)), ("uint8", (0, 255))):
        for axes, shape in (((1,), (2, 523, 1, 27)), ((1, 2), (1, 3, 7, 16)), ((0, 2), (3, 2, 257, 8))):
            result = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
            kernel = single(prim.Reduce("sum", axes), [TensorType(dtype, shape)], TensorType("int32", result))
            random = codes(np.random.default_rng(3), dtype, shape)
            for array in (random, *(np.full(shape, end, dtype) for end in ends)):
                module.add(kernel, name=f"kernel_{len(operands)}")
                operands.append([array])
    assert {choose(emitted.kernel, module.target).name for emitted in module.kernels} == {"reduce_bytes"}
    assert not check_emulated(module, operands, tmp_path)


def test_llvm_has_the_back_ends() -> None:
    """The installed llvmlite generates AArch64 code."""
    assert llvm.Target.from_triple(target_named("arm64").triple).name == "aarch64"
