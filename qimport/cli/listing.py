"""A TFLite file as text and as JSON: exactly what it says, supported or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qimport.cli.text import format_shape
from qimport.errors import printable
from qimport.frontend.model import Model, Operator, Quantization, Signature, SubGraph, Tensor

SCALES_SHOWN = 4


def listing(model: Model) -> str:
    """The whole file, one line per tensor and operator."""
    lines = [f"schema {model.version}, {model.description!r}"]
    lines += [f"metadata {name!r}: {len(data or b'')} bytes" for name, data in model.metadata.items()]
    lines += [_signature(signature) for signature in model.signatures]
    for number, graph in enumerate(model.subgraphs):
        lines += _subgraph(number, graph)
    return "\n".join(lines)


def _signature(signature: Signature) -> str:
    def arguments(table: Mapping[str, int]) -> str:
        return ", ".join(f"{printable(name)}=%{index}" for name, index in table.items())

    calls = f"({arguments(signature.inputs)}) -> ({arguments(signature.outputs)})"
    return f"signature {signature.key!r}: {calls} of subgraph {signature.subgraph}"


def _subgraph(number: int, graph: SubGraph) -> Iterator[str]:
    yield f"subgraph {number} {graph.name!r}: ({_indices(graph.inputs)}) -> ({_indices(graph.outputs)})"
    for tensor in graph.tensors:
        yield f"  %{tensor.index} {_tensor(tensor)}"
    for operator in graph.operators:
        yield f"  operator {operator.index}: {_operator(operator)}"


def _indices(indices: Iterable[int]) -> str:
    return ", ".join("_" if index == -1 else f"%{index}" for index in indices)


def _tensor(tensor: Tensor) -> str:
    parts = [repr(tensor.name), f"{tensor.dtype}[{format_shape(tensor.shape)}]"]
    if tensor.shape_signature != tensor.shape:
        parts.append(f"signature [{format_shape(tensor.shape_signature)}]")
    if tensor.quantization is not None and len(tensor.quantization.scales):
        parts.append(_quantization(tensor.quantization))
    if tensor.raw is not None:
        parts.append(f"constant of {len(tensor.raw)} bytes")
    parts += ["variable"] * tensor.is_variable + ["sparse"] * tensor.is_sparse
    return " ".join(parts)


def _quantization(quantization: Quantization) -> str:
    pairs = list(zip(quantization.scales, quantization.zero_points, strict=True))
    shown = [f"{float(scale):.9g}:{zero}" for scale, zero in pairs[:SCALES_SHOWN]]
    more = [f"... {len(pairs)} in all"] if len(pairs) > SCALES_SHOWN else []
    axis = f" @{quantization.axis}" if len(pairs) > 1 else ""
    scheme = "" if quantization.details == "NONE" else f" {quantization.details}"
    return f"<{', '.join(shown + more)}{axis}{scheme}>"


def _operator(operator: Operator) -> str:
    custom = f"CUSTOM {printable(operator.custom_code or '')}"
    name = custom if operator.builtin == "CUSTOM" else operator.builtin
    options = ", ".join(f"{key}={value}" for key, value in operator.options.items())
    braces = f" {{{options}}}" if options else ""
    return (
        f"{name} v{operator.version} ({_indices(operator.inputs)}) -> ({_indices(operator.outputs)}){braces}"
    )


def describe_model(model: Model) -> dict[str, Any]:
    """The same, ready for ``json.dumps``; of constants and custom options only the number of bytes."""
    return {
        "version": model.version,
        "description": model.description,
        "metadata": {name: len(data or b"") for name, data in model.metadata.items()},
        "signatures": [
            {
                "key": signature.key,
                "subgraph": signature.subgraph,
                "inputs": dict(signature.inputs),
                "outputs": dict(signature.outputs),
            }
            for signature in model.signatures
        ],
        "subgraphs": [
            {
                "name": graph.name,
                "inputs": list(graph.inputs),
                "outputs": list(graph.outputs),
                "tensors": [_describe_tensor(tensor) for tensor in graph.tensors],
                "operators": [_describe_operator(operator) for operator in graph.operators],
            }
            for graph in model.subgraphs
        ],
    }


def _describe_tensor(tensor: Tensor) -> dict[str, Any]:
    quantization = tensor.quantization
    return {
        "index": tensor.index,
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "shape_signature": list(tensor.shape_signature),
        "constant_bytes": None if tensor.raw is None else len(tensor.raw),
        "variable": tensor.is_variable,
        "quantization": None
        if quantization is None
        else {
            "scales": [float(scale) for scale in quantization.scales],
            "zero_points": [int(zero) for zero in quantization.zero_points],
            "axis": quantization.axis,
            "details": quantization.details,
        },
    }


def _describe_operator(operator: Operator) -> dict[str, Any]:
    return {
        "index": operator.index,
        "operator": operator.builtin,
        "custom_code": operator.custom_code,
        "version": operator.version,
        "inputs": list(operator.inputs),
        "outputs": list(operator.outputs),
        "options": {key: _plain(value) for key, value in operator.options.items()},
    }


def _plain(value: Any) -> Any:
    """Option values are Python's own but for arrays and byte strings."""
    if isinstance(value, bytes | memoryview):
        return len(value)
    return value.tolist() if hasattr(value, "tolist") else value
