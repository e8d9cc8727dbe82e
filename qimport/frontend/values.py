"""From tensors as the file describes them to types and values of a graph."""

from __future__ import annotations

import numpy as np

from qimport.errors import ModelError
from qimport.frontend.model import Quantization as Stated
from qimport.frontend.model import Tensor
from qimport.ir.graph import Value
from qimport.ir.types import DTYPES, INTEGER_RANGE, Quantization, TensorType


class UnsupportedTensorError(Exception):
    """The tensor is of a kind that no operator can use; the message says why, as a part of a refusal."""


def value_name(tensor: Tensor) -> str:
    """Return the tensor's name, or its number in the file where it has none."""
    return tensor.name or f"#{tensor.index}"


def tensor_type(tensor: Tensor, shape: tuple[int, ...]) -> TensorType:
    """Return the type of a tensor with the given shape.

    Raises:
        UnsupportedTensorError: an element type, quantization scheme or storage that qimport does not know.
        ModelError: a zero point outside the element type.
    """
    if tensor.dtype not in DTYPES:
        raise UnsupportedTensorError(f"the element type {tensor.dtype} is not supported")
    if tensor.is_sparse:
        raise UnsupportedTensorError("sparse tensors are not supported")
    if tensor.external_buffer:
        raise UnsupportedTensorError("its content lies in another file, which is not supported")
    return TensorType(tensor.dtype, shape, _quantization(tensor))


def _quantization(tensor: Tensor) -> Quantization | None:
    """Return the quantization of an integer tensor; that of a float tensor means nothing.

    The axis counts only where there are several scales. Constants quantized in blocks have none.
    """
    found = tensor.quantization
    if found is None or tensor.dtype not in INTEGER_RANGE:
        return None
    if found.blocks is not None and tensor.dtype == "int4" and tensor.data is not None:
        return None  # Operators that know blocks ask the tensor.
    if found.details != "NONE":
        raise UnsupportedTensorError(f"the quantization scheme {found.details} is not supported")
    lowest, highest = INTEGER_RANGE[tensor.dtype]
    zero_points = tuple(int(zero) for zero in found.zero_points)
    for zero in zero_points:
        if not lowest <= zero <= highest:
            raise ModelError(
                f"tensor {tensor.name!r} has zero point {zero}, expected one of {tensor.dtype}:"
                f" {lowest} to {highest}",
                field="zero_point",
            )
    _check_zero_scales(tensor, found)
    scales = tuple(float(scale) for scale in found.scales)
    return Quantization(scales, zero_points, found.axis if len(scales) > 1 else None)


def _check_zero_scales(tensor: Tensor, found: Stated) -> None:
    """Refuse a scale of 0, unless it stands for zeros only, or belongs to a bias, whose scale is implied."""
    if found.scales.all() or (tensor.raw is not None and tensor.dtype == "int32"):
        return
    if tensor.data is not None:
        shape = [1] * len(tensor.shape)
        if len(found.scales) > 1:
            shape[found.axis] = -1
        idle = found.scales.reshape(shape) == 0
        if not ((tensor.data != found.zero_points.reshape(shape)) & idle).any():
            return
    raise ModelError(
        f"tensor {tensor.name!r} has scale 0, expected a positive number; convert the model again",
        field="scale",
    )


def constant_value(tensor: Tensor) -> Value | None:
    """Return a constant of the file as a value, None if the tensor has no content.

    The file format cannot tell an empty constant (such as the shape of a scalar) from an activation; a tensor
    of size 0 counts as a constant, because no operator may compute one.

    Raises:
        UnsupportedTensorError, ModelError: as :func:`tensor_type`.
    """
    if tensor.raw is None and 0 not in tensor.shape and not tensor.external_buffer:
        return None
    type_ = tensor_type(tensor, tensor.shape)
    data = np.zeros(tensor.shape, type_.numpy) if tensor.data is None else tensor.data
    return Value(type_, value_name(tensor), data)
