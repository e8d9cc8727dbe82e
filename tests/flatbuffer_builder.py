"""Assembling .tflite files for tests, by reflection over the published ``tflite`` package.

    model = ModelBuilder()
    x = model.tensor((1, 8, 8, 3), "int8", scale=0.5, zero_point=-1)
    w = model.tensor((4, 1, 1, 3), "int8", scale=[0.1] * 4, data=weights)
    y = model.tensor((1, 8, 8, 4), "int8", scale=0.25)
    model.operator("CONV_2D", [x, w], [y], padding="SAME", stride_w=1, stride_h=1)
    file = model.build([x], [y])

Whatever is asked for is written, also what no converter would write: the builder checks nothing, and its
lists (``codes``, ``buffers``, ``subgraphs``, ...) may be edited to write nonsense. It shares no code with
``qimport.frontend``, so that each checks the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import Mock

import flatbuffers
import numpy as np
import tflite

ALIGNMENT = 16
# Element types of newer schemas than the package's.
NEWER_TYPES = {"int2": 19, "uint4": 20}
# The number of ``BlockwiseQuantization`` among the details of a quantization.
BLOCKWISE = 2

_SHARED_OPTIONS = {
    "Pool2D": ("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"),
    "Reducer": ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"),
    "L2Norm": ("L2_NORMALIZATION",),
    "MaximumMinimum": ("MAXIMUM", "MINIMUM"),
    "SequenceRNN": ("UNIDIRECTIONAL_SEQUENCE_RNN",),
    "Random": ("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"),
    "Conv3D": ("CONV_3D_TRANSPOSE",),
}
# The enumeration behind a field; the generated classes only know that it is a number.
_ENUMS = {
    "padding": tflite.Padding,
    "fused_activation_function": tflite.ActivationFunctionType,
    "mode": tflite.MirrorPadMode,
    "weights_format": tflite.FullyConnectedOptionsWeightsFormat,
    "kernel_type": tflite.LSTMKernelType,
    "combiner": tflite.CombinerType,
    "type": tflite.LSHProjectionType,
    "reduce_function": tflite.ReduceWindowFunction,
    "composite_attributes_format": tflite.CustomOptionsFormat,
    **dict.fromkeys(
        (
            "in_data_type",
            "out_data_type",
            "output_type",
            "out_type",
            "idx_out_type",
            "key_dtype",
            "value_dtype",
            "quantized_bias_type",
        ),
        tflite.TensorType,
    ),
}

_WORD = re.compile(r"[_\W]")


def _key(name: str) -> str:
    return _WORD.sub("", name).lower()


def _options_classes() -> dict[str, str]:
    """Operator name -> name of its options class."""
    unions = [*vars(tflite.BuiltinOptions), *vars(tflite.BuiltinOptions2)]
    by_key = {_key(name.removesuffix("Options")): name for name in unions if name.endswith("Options")}
    operators = [name for name in vars(tflite.BuiltinOperator) if not name.startswith("_")]
    found = {name: by_key[_key(name)] for name in operators if _key(name) in by_key}
    found.update({name: f"{table}Options" for table, names in _SHARED_OPTIONS.items() for name in names})
    return found


OPTIONS_CLASS = _options_classes()


@dataclass
class _Tensor:
    shape: Sequence[int]
    type_code: int
    buffer: int
    name: str
    scale: Sequence[float] | None
    zero_point: Sequence[int]
    axis: int
    is_variable: bool
    shape_signature: Sequence[int] | None
    blockwise: tuple[int, int, int] | None


@dataclass
class _Operator:
    opcode: int
    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Mapping[str, Any] | None
    custom_options: bytes | None
    intermediates: Sequence[int] | None


@dataclass
class _SubGraph:
    name: str
    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()


class ModelBuilder:
    """Collects tensors and operators of one or more subgraphs and writes the file."""

    def __init__(self, description: str = "test model") -> None:
        self.version = 3
        self._description = description
        self.codes: list[dict[str, Any]] = []
        self.buffers: list[bytes | None] = [None]
        self.metadata_entries: list[tuple[str, int]] = []
        self.subgraphs = [_SubGraph("main")]
        self.signature_subgraph: int | None = None
        self.signatures: list[tuple[str, int]] = []

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str | int,
        scale: float | Sequence[float] | None = None,
        zero_point: int | Sequence[int] = 0,
        axis: int = 0,
        data: Any = None,
        name: str | None = None,
        is_variable: bool = False,
        shape_signature: Sequence[int] | None = None,
        blockwise: tuple[int, int, int] | None = None,
    ) -> int:
        """Add a tensor to the current subgraph and return its index.

        ``data`` makes it a constant: an array (int4 is packed here) or the bytes themselves.
        One ``zero_point`` is repeated for every scale; a sequence is written as given.
        ``blockwise`` quantizes in blocks: the tensors of the scales and of the zero points (-1: none), and
        the size of a block.
        """
        graph = self.subgraphs[-1]
        index = len(graph.tensors)
        scales = scale if scale is None or isinstance(scale, Sequence | np.ndarray) else [scale]
        points = (
            zero_point if isinstance(zero_point, Sequence | np.ndarray) else [zero_point] * len(scales or ())
        )
        buffer = 0 if data is None else self.buffer(pack(data, dtype))
        graph.tensors.append(
            _Tensor(
                shape,
                type_code(dtype),
                buffer,
                f"t{index}" if name is None else name,
                scales,
                points,
                axis,
                is_variable,
                shape_signature,
                blockwise,
            )
        )
        return index

    def operator(
        self,
        builtin: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        version: int = 1,
        *,
        custom_code: str | None = None,
        custom_options: bytes | None = None,
        intermediates: Sequence[int] | None = None,
        with_options: bool = True,
        **options: Any,
    ) -> int:
        """Add an operator to the current subgraph and return its index; enumerations are given by name.

        Fields of the options that are not named keep the default of the schema; ``with_options=False``
        leaves out the whole table.
        """
        number = getattr(tflite.BuiltinOperator, builtin)
        code = {
            "builtin_code": number,
            "deprecated_builtin_code": min(number, 127),
            "version": version,
            "custom_code": custom_code,
        }
        if code not in self.codes:
            self.codes.append(code)
        operators = self.subgraphs[-1].operators
        operators.append(
            _Operator(
                self.codes.index(code),
                builtin,
                inputs,
                outputs,
                options if with_options else None,
                custom_options,
                intermediates,
            )
        )
        return len(operators) - 1

    def buffer(self, data: bytes | None) -> int:
        """Add a buffer and return its index."""
        self.buffers.append(data)
        return len(self.buffers) - 1

    def metadata(self, name: str, data: bytes) -> None:
        """Add an entry to the model's metadata."""
        self.metadata_entries.append((name, self.buffer(data)))

    def next_subgraph(self, inputs: Sequence[int], outputs: Sequence[int], name: str = "next") -> None:
        """End the current subgraph with its ``inputs`` and ``outputs`` and start another one."""
        self.subgraphs[-1].inputs, self.subgraphs[-1].outputs = inputs, outputs
        self.subgraphs.append(_SubGraph(name))

    def build(
        self,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        signature: str | None = None,
        *,
        outside: bool = False,
    ) -> bytes:
        """Return the file; ``signature`` names a signature of the last subgraph, its arguments the tensors.

        ``self.signatures`` may hold further ones: names with the numbers of their subgraphs.
        Without ``inputs`` and ``outputs`` the subgraphs are written as they are.
        With ``outside`` the buffers lie behind the flatbuffer, as in files above 2 GB.
        """
        if inputs is not None and outputs is not None:
            self.subgraphs[-1].inputs, self.subgraphs[-1].outputs = inputs, outputs
        if not outside:
            return self._write(signature, None)
        offsets: list[int] = []
        end = -(-len(self._write(signature, [ALIGNMENT] * len(self.buffers))) // ALIGNMENT) * ALIGNMENT
        for data in self.buffers:
            offsets.append(end)
            end += -(-len(data or b"") // ALIGNMENT) * ALIGNMENT
        file = bytearray(self._write(signature, offsets).ljust(end, b"\0"))
        for data, offset in zip(self.buffers, offsets, strict=True):
            file[offset : offset + len(data or b"")] = data or b""
        return bytes(file)

    def _write(self, signature: str | None, offsets: Sequence[int] | None) -> bytes:
        fb = _Writer()
        buffers = [fb.buffer(data, offsets and offsets[i]) for i, data in enumerate(self.buffers)]
        graphs = [_write_subgraph(fb, graph) for graph in self.subgraphs]
        codes = [fb.table("OperatorCode", **code) for code in self.codes]
        metadata = [fb.table("Metadata", name=name, buffer=buffer) for name, buffer in self.metadata_entries]
        last = len(self.subgraphs) - 1 if self.signature_subgraph is None else self.signature_subgraph
        named = [(signature, len(self.subgraphs) - 1, last)] if signature else []
        named += [(key, number, number) for key, number in self.signatures]
        defined = [self._write_signature(fb, *item) for item in named]
        root = fb.table(
            "Model",
            version=self.version,
            operator_codes=fb.offsets(codes),
            subgraphs=fb.offsets(graphs),
            description=self._description,
            buffers=fb.offsets(buffers),
            metadata=fb.offsets(metadata) if metadata else None,
            signature_defs=fb.offsets(defined) if defined else None,
        )
        fb.builder.Finish(root, file_identifier=b"TFL3")
        return bytes(fb.builder.Output())

    def _write_signature(self, fb: _Writer, key: str, tensors: int, subgraph: int) -> int:
        """A signature of ``subgraph`` over inputs and outputs of subgraph ``tensors``."""
        graph = self.subgraphs[tensors]
        maps = [
            fb.offsets([fb.table("TensorMap", name=graph.tensors[i].name, tensor_index=i) for i in indices])
            for indices in (graph.inputs, graph.outputs)
        ]
        return fb.table(
            "SignatureDef",
            inputs=maps[0],
            outputs=maps[1],
            signature_key=key,
            subgraph_index=subgraph,
        )


def type_code(dtype: str | int) -> int:
    """Return the schema's number of an element type, which may be given itself."""
    if isinstance(dtype, int):
        return dtype
    code: int = NEWER_TYPES[dtype] if dtype in NEWER_TYPES else getattr(tflite.TensorType, dtype.upper())
    return code


def pack(data: Any, dtype: str | int) -> bytes:
    """Return the bytes of a constant: little-endian; int4 and int2 packed with the first in the low bits."""
    if isinstance(data, bytes):
        return data
    bits = {"int4": 4, "uint4": 4, "int2": 2}.get(str(dtype))
    if bits is None:
        return np.asarray(data).astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    codes = np.asarray(data).reshape(-1).astype(np.int64) & ((1 << bits) - 1)
    per_byte = 8 // bits
    codes = np.append(codes, np.zeros(-len(codes) % per_byte, np.int64)).reshape(-1, per_byte)
    return (codes << np.arange(0, 8, bits)).sum(1).astype(np.uint8).tobytes()


class _Writer:
    """``flatbuffers.Builder`` with tables by field name."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)

    def table(self, table: str, **fields: Any) -> int:
        """Write a table; None leaves a field out. Strings, bytes and sequences are written first.

        An ``int`` for a field that is a vector, string or table means something already written.
        """
        add = _adders(table)
        values = {
            _key(name): self._prepare(table, name, value)
            for name, value in fields.items()
            if value is not None
        }
        getattr(tflite, f"{table}Start")(self.builder)
        for name, value in values.items():
            add[name](self.builder, value)
        end: int = getattr(tflite, f"{table}End")(self.builder)
        return end

    def _prepare(self, table: str, name: str, value: Any) -> Any:
        if isinstance(value, str):
            if name in _ENUMS:
                return type_code(value) if _ENUMS[name] is tflite.TensorType else getattr(_ENUMS[name], value)
            return self.builder.CreateString(value)
        if isinstance(value, bytes):
            return self.bytes(value)
        if isinstance(value, Sequence | np.ndarray):
            return self._vector(table, name, value)
        return value

    def _vector(self, table: str, name: str, values: Sequence[Any] | np.ndarray) -> int:
        """Write a vector of numbers."""
        floating = _key(name) in ("min", "max", "scale", "boundaries")
        width = _vector_width(table, name)
        dtype = np.dtype(f"<f{width}" if floating else f"<i{width}")
        return int(self.builder.CreateNumpyVector(np.asarray(values, dtype)))

    def blockwise_quantization(self, scales: int, zero_points: int, block_size: int) -> int:
        """Write a table that the published package lacks: two tensors, -1 for none, and a size."""
        self.builder.StartObject(3)
        for slot, number in enumerate((scales, zero_points, block_size)):
            self.builder.PrependInt32Slot(slot, number, 0)
        return int(self.builder.EndObject())

    def bytes(self, data: bytes) -> int:
        """Write a byte vector, aligned as constants must be."""
        builder = self.builder
        builder.StartVector(1, len(data), ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.Head() : builder.Head() + len(data)] = data
        return int(builder.EndVector())

    def offsets(self, positions: Sequence[int]) -> int:
        """Write a vector of tables."""
        self.builder.StartVector(4, len(positions), 4)
        for position in reversed(positions):
            self.builder.PrependUOffsetTRelative(position)
        return int(self.builder.EndVector())

    def buffer(self, data: bytes | None, offset: int | None) -> int:
        """Write a buffer: inside the flatbuffer, or only its place when ``offset`` is given."""
        if data is None or offset is None:
            return self.table("Buffer", data=data)
        return self.table("Buffer", offset=offset, size=len(data))


@cache
def _vector_width(table: str, name: str) -> int:
    """Return the bytes per element that the generated ``Start...Vector`` function asks for."""
    start = next(
        function
        for attribute, function in vars(tflite).items()
        if _key(attribute) == _key(f"{table}Start{name}Vector")
    )
    recorder = Mock()
    start(recorder, 0)
    width: int = recorder.StartVector.call_args.args[0]
    return width


@cache
def _adders(table: str) -> dict[str, Callable[[Any, Any], None]]:
    """Field -> the generated function that adds it to a table."""
    prefix = f"{table}Add"
    return {
        _key(name.removeprefix(prefix)): function
        for name, function in vars(tflite).items()
        if name.startswith(prefix)
    }


def _write_subgraph(fb: _Writer, graph: _SubGraph) -> int:
    tensors = [_write_tensor(fb, tensor) for tensor in graph.tensors]
    operators = [_write_operator(fb, operator) for operator in graph.operators]
    return fb.table(
        "SubGraph",
        name=graph.name,
        tensors=fb.offsets(tensors),
        operators=fb.offsets(operators),
        inputs=list(graph.inputs),
        outputs=list(graph.outputs),
    )


def _write_tensor(fb: _Writer, tensor: _Tensor) -> int:
    return fb.table(
        "Tensor",
        shape=list(tensor.shape),
        type=tensor.type_code,
        buffer=tensor.buffer,
        name=tensor.name,
        quantization=_write_quantization(fb, tensor),
        is_variable=tensor.is_variable,
        shape_signature=tensor.shape_signature,
        has_rank=True,
    )


def _write_quantization(fb: _Writer, tensor: _Tensor) -> int | None:
    if tensor.blockwise is not None:
        details = fb.blockwise_quantization(*tensor.blockwise)
        return fb.table("QuantizationParameters", details_type=BLOCKWISE, details=details)
    if tensor.scale is None:
        return None
    return fb.table(
        "QuantizationParameters",
        scale=tensor.scale,
        zero_point=tensor.zero_point,
        quantized_dimension=tensor.axis,
    )


def _write_operator(fb: _Writer, operator: _Operator) -> int:
    fields: dict[str, Any] = {}
    class_name = OPTIONS_CLASS.get(operator.name)
    if class_name is not None and operator.options is not None:
        union = "builtin_options" if hasattr(tflite.BuiltinOptions, class_name) else "builtin_options_2"
        codes = tflite.BuiltinOptions if union == "builtin_options" else tflite.BuiltinOptions2
        fields = {
            f"{union}_type": getattr(codes, class_name),
            union: fb.table(class_name, **operator.options),
        }
    return fb.table(
        "Operator",
        opcode_index=operator.opcode,
        inputs=list(operator.inputs),
        outputs=list(operator.outputs),
        custom_options=operator.custom_options,
        intermediates=operator.intermediates,
        **fields,
    )
