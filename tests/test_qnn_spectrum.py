"""RFFT2D, COMPLEX_ABS, REAL and IMAG: transforms of every padding, complex tensors as inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import check, kernel_of

from qimport import fourier, prim, qnn
from qimport.ir.graph import Builder, Value
from qimport.ir.types import TensorType
from qimport.oracle import Oracle
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.spectrum import complex_case, rfft2d_case


@pytest.mark.parametrize("seed", range(12))
def test_rfft2d(seed: int, oracle: Oracle) -> None:
    rfft2d_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("op", [qnn.ComplexAbs(), qnn.Real(), qnn.Imag()], ids=lambda op: op.NAME)
def test_complex_operands(op: qnn.QnnOperation, seed: int, oracle: Oracle) -> None:
    complex_case(op, Draw.of(seed)).check(oracle)


def test_complex_numbers_are_reshaped(oracle: Oracle) -> None:
    x = TensorType("complex64", (2, 3))
    value = (np.arange(6) + 1j * np.arange(6)[::-1]).astype(np.complex64).reshape(2, 3)
    shape = np.array([6], np.int32)
    out = TensorType("complex64", (6,))
    OperatorCase(
        qnn.Reshape(), (Operand(x, value=value),), out, "RESHAPE", attributes=(shape,), version=1
    ).check(oracle)


@pytest.mark.parametrize("count", [2, 4, 8, 64, 512])
def test_the_transform_is_fouriers(count: int) -> None:
    rng = np.random.default_rng(count)
    x = rng.normal(size=(3, count, 2))
    found = fourier.transform(x, fourier.roots(count)).view(np.complex128)[..., 0]
    wanted = np.fft.ifft(x.view(np.complex128)[..., 0]) * count
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * count)


@pytest.mark.parametrize("count", [2, 4, 32])
@pytest.mark.parametrize("rows", [1, 3])
def test_generated_code_transforms(count: int, rows: int) -> None:
    x = Value(TensorType("float64", (rows, count, 2)), "x")
    builder = Builder()
    roots = builder.constant(fourier.roots(count))
    y = builder.emit(prim.Fft(count // 2), (x, roots), x.type)
    data = np.random.default_rng(rows).normal(size=x.type.shape)
    check(kernel_of(builder.nodes, y), [data], "host")
