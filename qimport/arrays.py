"""Between the caller's arrays and a model's tensors: which array is which input, and is it the right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.artefact import SignatureInfo, TensorInfo
from qimport.errors import ArgumentError, unknown_input
from qimport.ir.graph import Call
from qimport.ir.types import TensorType
from qimport.numerics import Numerics

Array = npt.NDArray[Any]
Inputs = Array | Sequence[Any] | Mapping[str, Any]
"""A single array for a model of one input, arrays in the model's order, or arrays by name."""


def in_order(inputs: Inputs, infos: Sequence[TensorInfo], signatures: Sequence[SignatureInfo]) -> list[Array]:
    """The given arrays in the model's order; names are those of tensors or of a signature's arguments.

    Raises:
        ArgumentError: wrong number of arrays, unknown, ambiguous or missing names.
    """
    arrays: Sequence[Any] = [inputs]
    if not isinstance(inputs, np.ndarray):  # asked first because it is quickly answered
        if isinstance(inputs, Mapping):
            return _by_name(inputs, infos, signatures)
        arrays = inputs if isinstance(inputs, list | tuple) else [inputs]
    if len(arrays) != len(infos):
        given = "1 array was" if len(arrays) == 1 else f"{len(arrays)} arrays were"
        names = ", ".join(repr(info.name) for info in infos)
        raise ArgumentError(f"{given} given, the model has {len(infos)} input(s): {names}")
    return [_as_array(array, info) for array, info in zip(arrays, infos, strict=True)]


def _as_array(value: Any, info: TensorInfo) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"what is given for input {info.name!r} is no array: {error}") from error


def _by_name(
    inputs: Mapping[str, Any], infos: Sequence[TensorInfo], signatures: Sequence[SignatureInfo]
) -> list[Array]:
    known = _positions(infos, signatures)
    found: dict[int, Array] = {}
    for name, array in inputs.items():
        positions = known.get(name, set())
        if not positions:
            raise unknown_input(name, known)
        if len(positions) > 1:
            raise ArgumentError(f"the name {name!r} belongs to {len(positions)} inputs; give a list instead")
        (position,) = positions
        if position in found:
            raise ArgumentError(f"input {infos[position].name!r} is given twice, once as {name!r}")
        found[position] = _as_array(array, infos[position])
    missing = [repr(info.name) for position, info in enumerate(infos) if position not in found]
    if missing:
        raise ArgumentError(f"no array for input {', '.join(missing)}")
    return [found[position] for position in range(len(infos))]


def _positions(infos: Sequence[TensorInfo], signatures: Sequence[SignatureInfo]) -> dict[str, set[int]]:
    """Every name an input goes by; a tensor's own name wins over a signature's."""
    known: dict[str, set[int]] = {}
    for position, info in enumerate(infos):
        known.setdefault(info.name, set()).add(position)
    own = set(known)
    for signature in signatures:
        for name, position in signature.inputs.items():
            if name not in own:
                known.setdefault(name, set()).add(position)
    return known


def checked(array: Array, info: TensorInfo, numerics: Numerics, quantize: bool) -> Array:
    """``array`` as C-contiguous codes of the tensor; copied only where it is not contiguous.

    With ``quantize``, floats become codes exactly as a QUANTIZE operator of this numerics mode makes them.

    Raises:
        ArgumentError: another shape or element type than the tensor's.
    """
    if array.shape != info.shape:
        raise ArgumentError(
            f"input {info.name!r} has shape {list(array.shape)}, the model wants {list(info.shape)}"
        )
    if quantize and array.dtype.kind == "f" and info.dtype.kind != "f":
        array = _to_codes(array, info, numerics)
    if array.dtype != info.dtype:
        raise ArgumentError(_wrong_dtype(array, info))
    return np.ascontiguousarray(array)


def _wrong_dtype(array: Array, info: TensorInfo) -> str:
    sentence = f"input {info.name!r} is {array.dtype}, the model wants {info.dtype}"
    if array.dtype.kind != "f" or info.scale is None:
        return sentence
    return (
        f"{sentence} codes: real = {info.scale:.9g} * (code - {info.zero_point}); pass quantize=True to"
        " have the floats quantized so"
    )


def _to_codes(array: Array, info: TensorInfo, numerics: Numerics) -> Array:
    if info.scale is None:
        raise ArgumentError(f"input {info.name!r} has no single scale, floats cannot be quantized for it")
    from qimport.qnn.quantize import Quantize  # with all operations; most calls need none

    operand = TensorType("float32", info.shape)
    call = Call((operand,), (info.type,), (array.astype(np.float32),), numerics)
    return np.asarray(Quantize().evaluate(call)[0])


def to_floats(array: Array, info: TensorInfo, numerics: Numerics) -> Array:
    """The real values of codes, exactly as a DEQUANTIZE operator of this numerics mode makes them.

    A tensor that is not quantized is returned as it is.
    """
    if info.scale is None:
        return array
    from qimport.qnn.quantize import Dequantize

    call = Call((info.type,), (TensorType("float32", info.shape),), (array,), numerics)
    return np.asarray(Dequantize().evaluate(call)[0])
