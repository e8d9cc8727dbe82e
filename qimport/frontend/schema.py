"""The way in: ``read_model`` turns the bytes of a .tflite file into the records of ``frontend.model``.

The bytes are untrusted. Whatever they are, the result is a ``Model`` whose every index, length and size has
been checked, or a ``ModelError`` that names the byte and the field. Nothing is decided here: unknown
operators, odd options and unusual types are recorded as they are.

The checks mirror what the TFLite interpreter asks of a file when it loads it (and it is version 3 of the
schema that both read). Metadata appended as a ZIP archive lies behind the flatbuffer and is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qimport.frontend.flatbuffer import ADVICE, Reader, Table, layout
from qimport.frontend.model import (
    IDENTIFIER,
    Model,
    Operator,
    OperatorCode,
    Quantization,
    Signature,
    SubGraph,
    Tensor,
)
from qimport.frontend.options import operator_name, read_options
from qimport.frontend.tensors import TENSOR, read_tensor

__all__ = [
    "Model",
    "Operator",
    "OperatorCode",
    "Quantization",
    "Signature",
    "SubGraph",
    "Tensor",
    "read_model",
]

VERSION = 3

MODEL = layout(
    "version operator_codes subgraphs description buffers metadata_buffer metadata signature_defs"
    " external_buffer_groups external_buffers"
)
OPERATOR_CODE = layout("deprecated_builtin_code custom_code version builtin_code")
SUBGRAPH = layout("tensors inputs outputs operators name debug_metadata_index")
BUFFER = layout("data offset size")
OPERATOR = layout(
    "opcode_index inputs outputs builtin_options_type builtin_options custom_options custom_options_format"
    " mutating_variable_inputs intermediates large_custom_options_offset large_custom_options_size"
    " builtin_options_2_type builtin_options_2 debug_metadata_index"
)
METADATA = layout("name buffer")
SIGNATURE = layout("inputs outputs signature_key deprecated_tag subgraph_index")
TENSOR_MAP = layout("name tensor_index")


def read_model(data: bytes | bytearray | memoryview, *, source: str = "model") -> Model:
    """Read a .tflite file held in memory; constants stay views of ``data``.

    ``source`` names the file in messages. Raises ``ModelError`` for everything that is not a well-formed
    model.
    """
    reader = Reader(memoryview(data).cast("B").toreadonly(), source)
    root = reader.root(IDENTIFIER, MODEL)
    version: int = root.scalar("version", "uint32", 0)
    if version != VERSION:
        root.fail("version", f"the schema version is {version}, expected {VERSION}; convert the model again")
    codes = tuple(_read_code(table) for table in root.tables("operator_codes", OPERATOR_CODE))
    buffers = tuple(_read_buffer(table) for table in root.tables("buffers", BUFFER))
    subgraphs = tuple(_read_subgraph(table, codes, buffers) for table in root.tables("subgraphs", SUBGRAPH))
    if not subgraphs:
        root.fail("subgraphs", "the model has no subgraph, expected at least one; export the model again")
    return Model(
        version=version,
        description=root.string("description") or "",
        operator_codes=codes,
        subgraphs=subgraphs,
        buffers=buffers,
        signatures=tuple(
            _read_signature(table, subgraphs) for table in root.tables("signature_defs", SIGNATURE)
        ),
        metadata=dict(_read_metadata(table, buffers) for table in root.tables("metadata", METADATA)),
    )


def _read_code(table: Table) -> OperatorCode:
    """Read an operator code. Old files have only the one-byte field, which ends at 127: the larger counts."""
    code: int = max(
        table.scalar("deprecated_builtin_code", "int8", 0), table.scalar("builtin_code", "int32", 0)
    )
    if code < 0:
        table.fail("builtin_code", f"the operator code is {code}, expected 0 or more; {ADVICE}")
    version: int = table.scalar("version", "int32", 1)
    return OperatorCode(operator_name(code), table.string("custom_code"), version)


def _read_buffer(table: Table) -> memoryview | None:
    """Return the bytes of a buffer, None when it has none; zero bytes are the data of an empty constant.

    Files above 2 GB keep the bytes behind the flatbuffer.
    """
    data = table.raw("data")
    return _read_outside(table, "offset", "size") if data is None else data


def _read_outside(table: Table, offset_field: str, size_field: str) -> memoryview | None:
    """Return bytes placed by absolute offset and size; 0 and 1 mean "none", as to the interpreter."""
    offset: int = table.scalar(offset_field, "uint64", 0)
    size: int = table.scalar(size_field, "uint64", 0)
    if offset <= 1 or size <= 1:
        return None
    reader = table.reader
    if offset + size > reader.size:
        table.fail(
            offset_field, f"{size} bytes at byte {offset} were expected, the file has {reader.size}; {ADVICE}"
        )
    return reader.data[offset : offset + size]


def _read_subgraph(
    table: Table, codes: tuple[OperatorCode, ...], buffers: tuple[memoryview | None, ...]
) -> SubGraph:
    tensors = tuple(
        read_tensor(entry, index, buffers) for index, entry in enumerate(table.tables("tensors", TENSOR))
    )
    return SubGraph(
        name=table.string("name") or "",
        tensors=tensors,
        inputs=_read_indices(table, "inputs", len(tensors)),
        outputs=_read_indices(table, "outputs", len(tensors)),
        operators=tuple(
            _read_operator(entry, index, codes, len(tensors))
            for index, entry in enumerate(table.tables("operators", OPERATOR))
        ),
    )


def _read_operator(table: Table, index: int, codes: tuple[OperatorCode, ...], tensors: int) -> Operator:
    code_index: int = table.scalar("opcode_index", "uint32", 0)
    if code_index >= len(codes):
        table.fail(
            "opcode_index", f"operator code {code_index} was asked for, the file has {len(codes)}; {ADVICE}"
        )
    code = codes[code_index]
    custom_options = table.raw("custom_options")
    if custom_options is None:
        custom_options = _read_outside(table, "large_custom_options_offset", "large_custom_options_size")
    return Operator(
        index=index,
        builtin=code.builtin,
        custom_code=code.custom_code,
        version=code.version,
        inputs=_read_indices(table, "inputs", tensors, optional=True),
        outputs=_read_indices(table, "outputs", tensors),
        options=read_options(table, code.builtin),
        custom_options=custom_options,
        intermediates=_read_indices(table, "intermediates", tensors, optional=True),
    )


def _read_indices(table: Table, field: str, tensors: int, optional: bool = False) -> tuple[int, ...]:
    """Return a vector of checked tensor indices; where ``optional``, -1 is an operand left out."""
    indices: tuple[int, ...] = table.numbers(field, "int32") or ()
    for position, index in enumerate(indices):
        if not 0 <= index < tensors and not (optional and index == -1):
            table.fail(
                field, f"item {position} is tensor {index}, the subgraph has {tensors} tensors; {ADVICE}"
            )
    return indices


def _read_signature(table: Table, subgraphs: tuple[SubGraph, ...]) -> Signature:
    subgraph: int = table.scalar("subgraph_index", "uint32", 0)
    if subgraph >= len(subgraphs):
        table.fail(
            "subgraph_index", f"subgraph {subgraph} was asked for, the file has {len(subgraphs)}; {ADVICE}"
        )
    tensors = len(subgraphs[subgraph].tensors)
    return Signature(
        key=table.string("signature_key") or "",
        inputs=_read_arguments(table.tables("inputs", TENSOR_MAP), tensors),
        outputs=_read_arguments(table.tables("outputs", TENSOR_MAP), tensors),
        subgraph=subgraph,
    )


def _read_arguments(entries: Iterable[Table], tensors: int) -> Mapping[str, int]:
    arguments: dict[str, int] = {}
    for table in entries:
        index: int = table.scalar("tensor_index", "uint32", 0)
        if index >= tensors:
            table.fail(
                "tensor_index", f"tensor {index} was asked for, the subgraph has {tensors} tensors; {ADVICE}"
            )
        arguments[table.string("name") or ""] = index
    return arguments


def _read_metadata(table: Table, buffers: tuple[memoryview | None, ...]) -> tuple[str, memoryview | None]:
    buffer: int = table.scalar("buffer", "uint32", 0)
    if buffer >= len(buffers):
        table.fail("buffer", f"buffer {buffer} was asked for, the file has {len(buffers)}; {ADVICE}")
    return table.string("name") or "", buffers[buffer]
