"""The choice of input shapes: what the file leaves open, and what the caller asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from qimport.errors import ArgumentError, unknown_input
from qimport.frontend.model import ELEMENT_TYPES, MAX_TENSOR_BYTES, Signature, SubGraph, Tensor

MAX_DIMENSION = 2**31 - 1

Shapes = Mapping[str, Sequence[int]] | Mapping[int, Sequence[int]]
"""Whole input shapes by tensor name, by argument name of a signature, or by tensor index."""


def choose_shapes(
    subgraph: SubGraph,
    signatures: Sequence[Signature],
    batch: int | None,
    shapes: Shapes | None,
) -> dict[int, tuple[int, ...]]:
    """Return the static shape of every graph input, by tensor index.

    A dimension the file leaves open (-1 in the shape signature) is 1, or ``batch`` where it is the leading
    one. ``shapes`` may change any dimension.

    Raises:
        ArgumentError: unknown or ambiguous names, impossible or absurd sizes, another rank, a batch no input
            takes.
    """
    tensors = [subgraph.tensors[index] for index in subgraph.inputs]
    chosen = {tensor.index: _open_shape(tensor, batch) for tensor in tensors}
    if batch is not None:
        _check_batch(batch, tensors)
    names = _input_names(tensors, signatures)
    for key, shape in (shapes or {}).items():
        tensor = subgraph.tensors[key if isinstance(key, int) else _find(key, names)]
        chosen[tensor.index] = _checked_shape(tensor.name if isinstance(key, int) else key, tensor, shape)
    for tensor in tensors:
        _check_room(tensor, chosen[tensor.index])
    return chosen


def _open_shape(tensor: Tensor, batch: int | None) -> tuple[int, ...]:
    signature = tensor.shape_signature
    fixed = [1 if size == -1 else size for size in signature]
    if batch is not None and signature[:1] == (-1,):
        fixed[0] = batch
    return tuple(fixed)


def _check_batch(batch: int, tensors: Sequence[Tensor]) -> None:
    if not 1 <= batch <= MAX_DIMENSION:
        raise ArgumentError(f"batch is {batch}; expected 1 to {MAX_DIMENSION}")
    leading = {tensor.shape_signature[0] for tensor in tensors if tensor.shape_signature}
    if -1 not in leading and leading != {batch}:
        raise ArgumentError(
            f"batch {batch} fits no input: the file fixes every leading dimension; give shapes instead"
        )


def _input_names(tensors: Sequence[Tensor], signatures: Sequence[Signature]) -> dict[str, set[int]]:
    """Every name an input goes by; a tensor's own name wins over a signature's."""
    inputs = {tensor.index for tensor in tensors}
    names: dict[str, set[int]] = {}
    for tensor in tensors:
        names.setdefault(tensor.name, set()).add(tensor.index)
    own = set(names)
    for signature in signatures:
        for name, index in signature.inputs.items():
            if index in inputs and name not in own:
                names.setdefault(name, set()).add(index)
    return names


def _find(name: str, names: Mapping[str, set[int]]) -> int:
    found = names.get(name, set())
    if len(found) > 1:
        raise ArgumentError(f"the name {name!r} belongs to {len(found)} inputs of the model")
    if not found:
        raise unknown_input(name, names)
    return next(iter(found))


def _checked_shape(name: str, tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in shape)
    if len(sizes) != len(tensor.shape):
        raise ArgumentError(
            f"the shape {sizes} for input {name!r} has {len(sizes)} dimensions; expected {len(tensor.shape)}"
        )
    if not all(1 <= size <= MAX_DIMENSION for size in sizes):
        raise ArgumentError(f"the shape {sizes} for input {name!r} has a size outside 1 to {MAX_DIMENSION}")
    return sizes


def _check_room(tensor: Tensor, shape: tuple[int, ...]) -> None:
    size = math.prod(shape) * (ELEMENT_TYPES[tensor.dtype].bits or 0) // 8
    if size > MAX_TENSOR_BYTES and shape != tensor.shape:
        raise ArgumentError(
            f"input {tensor.name!r} of shape {shape} takes {size} bytes; expected less than 2 GiB"
        )
