"""Tensor types: element type, shape and, while a graph is quantized, the quantization itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
"""Bytes; every buffer of an arena and the constants of a kernel start at a multiple."""

DTYPES: dict[str, tuple[str, type[np.generic]]] = {
    "bool": ("i1", np.bool_),
    "int2": ("i2", np.int8),
    "int4": ("i4", np.int8),
    "int8": ("i8", np.int8),
    "uint8": ("u8", np.uint8),
    "int16": ("i16", np.int16),
    "int32": ("i32", np.int32),
    "uint32": ("u32", np.uint32),
    "int64": ("i64", np.int64),
    "float16": ("f16", np.float16),
    "float32": ("f32", np.float32),
    "float64": ("f64", np.float64),
    "complex64": ("c64", np.complex64),
}
"""Element types by name: the short form used in printed graphs, and the NumPy scalar type.

int2 and int4 occur as constants only, one element to a byte. A complex64 is two float32, the real part first;
its constants print as blobs.
"""

DTYPE_BY_SHORT_NAME = {short: name for name, (short, _) in DTYPES.items()}

INTEGER_RANGE: dict[str, tuple[int, int]] = {
    name: (int(np.iinfo(scalar).min), int(np.iinfo(scalar).max))
    for name, (_, scalar) in DTYPES.items()
    if issubclass(scalar, np.integer)
} | {"int2": (-2, 1), "int4": (-8, 7)}
"""Smallest and largest value of every integer element type."""


@dataclass(frozen=True)
class Quantization:
    """Affine quantization: real = scale * (code - zero_point).

    ``scales`` holds float32 values widened exactly to Python floats: one value, or one per index of ``axis``.
    ``zero_points`` has the same length as ``scales``. ``axis`` is None where there is one scale;
    weights of one scale keep an axis other than 0 that their file states, as the XNNPACK delegate looks
    at it.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The only scale of a per-tensor quantization."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The only zero point of a per-tensor quantization."""
        return self.zero_points[0]

    @property
    def per_channel(self) -> bool:
        """Whether every index of ``axis`` has a scale of its own."""
        return len(self.scales) > 1


@dataclass(frozen=True)
class TensorType:
    """Element type, static shape and optional quantization of a tensor. Shapes are row-major; images NHWC."""

    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(np.dtype(DTYPES[self.dtype][1]).itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor, densely packed."""
        return self.size * self.itemsize

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy element type."""
        return np.dtype(DTYPES[self.dtype][1])

    @property
    def quant(self) -> Quantization:
        """The quantization, where the caller knows there is one."""
        if self.quantization is None:
            raise ValueError(f"{self} is not quantized")
        return self.quantization

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element type and quantization with another shape."""
        return TensorType(self.dtype, shape, self.quantization)

    def __str__(self) -> str:
        text = f"{DTYPES[self.dtype][0]}[{'x'.join(map(str, self.shape))}]"
        if self.quantization is None:
            return text
        q = self.quantization
        pairs = zip(q.scales, q.zero_points, strict=True)
        body = ", ".join(f"{scale.hex()}:{zero}" for scale, zero in pairs)
        return f"{text}<{body}{'' if q.axis is None else f' @{q.axis}'}>"
