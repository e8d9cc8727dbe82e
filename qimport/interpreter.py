"""A drop-in for ``tf.lite.Interpreter`` whose ``invoke`` runs compiled code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.cache import user_cache
from qimport.codegen.host import resolve_target
from qimport.codegen.target import Target
from qimport.compiler import MOST_THREADS, Compilation, Options, check_numerics
from qimport.errors import ArgumentError
from qimport.frontend.memory import Variable
from qimport.frontend.model import ELEMENT_TYPES, Model, Signature, SubGraph, Tensor
from qimport.frontend.schema import read_model
from qimport.model import CompiledModel, Session
from qimport.numerics import Numerics
from qimport.oracle import RESOLVERS
from qimport.source import Content, read_source

Array = npt.NDArray[Any]

RESOLVER_NUMERICS: dict[str, Numerics] = {
    "BUILTIN": "xnnpack",
    **{resolver: check_numerics(family) for family, resolver in RESOLVERS.items()},
}
"""Member of ``OpResolverType`` -> numerics mode of the same bytes."""


class InterpreterError(ArgumentError, ValueError):
    """What TFLite's interpreter raises as ValueError: a wrong argument."""


class NotReadyError(ArgumentError, RuntimeError):
    """What TFLite's interpreter raises as RuntimeError: a call out of order."""


class Interpreter:
    """Use it as ``tf.lite.Interpreter``; tensor indices, details and errors are the same.

    Differences:

    - ``numerics`` chooses whose bytes ``invoke`` gives: ``reference`` (the default) or another mode of
      :data:`qimport.numerics.MODES`. Without it ``experimental_op_resolver_type`` decides where it is given:
      BUILTIN_REF, BUILTIN_WITHOUT_DEFAULT_DELEGATES and AUTO (or BUILTIN) mean ``reference``, ``builtin`` and
      ``xnnpack``. TFLite's own default is AUTO.
    - ``target`` is the target to compile for: ``host``, or a lesser one that this machine can run.
    - ``cache`` says whether to look for compiled code in the user's cache folder, and to keep it there.
    - Only inputs can be set and resized.
    - ``allocate_tensors`` compiles; what cannot be compiled is refused there with every reason.
    - ``num_threads`` changes no byte: they are those of TFLite with one thread. At most 256 are used.
    - Tensors that are neither inputs, outputs, variables nor constants share memory, and reading them is an
      error unless ``experimental_preserve_all_tensors`` keeps them, which costs speed.
    - A view that ``tensor(index)()`` gave never blocks ``invoke``: buffers stay until the next
      ``allocate_tensors`` after a resize.
    - ``reset_all_variables`` resets resource variables, too, to what the model initializes them with; TFLite
      resets only variable tensors.
    - Of the experimental arguments, those about delegates and debugging have no effect, and
      ``experimental_delegates`` must be empty.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = None,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        target: str | Target = "host",
        numerics: str | None = None,
        cache: bool = True,
    ) -> None:
        if experimental_delegates:
            raise InterpreterError("delegates cannot be used: the whole model is compiled")
        self._threads = _check_threads(num_threads)
        self._preserve = experimental_preserve_all_tensors
        self._compress_zero_points = experimental_compress_quantization_zero_points
        self._numerics = _choose_numerics(numerics, experimental_op_resolver_type, self._preserve)
        self._target = resolve_target(target)
        self._cache = user_cache() if cache else None
        self._content, self._source = _read(model_path, model_content)
        self._model: Model = read_model(self._content, source=self._source or "model")
        self._variables: dict[Variable, Array] = {}
        self._parts = [_Part(self, number, graph) for number, graph in enumerate(self._model.subgraphs)]

    @property
    def numerics(self) -> Numerics:
        """Whose bytes ``invoke`` gives."""
        return self._numerics

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """The argument of that name, which has no effect."""
        return self._compress_zero_points

    def allocate_tensors(self) -> None:
        """Compile for the present input shapes, unless that has been done.

        Raises:
            RuntimeError: the model does not take the shapes of its inputs.
            UnsupportedError: with every reason; a RuntimeError, too.
            ModelError: the file contradicts itself.
            TargetError: this machine cannot run code for the target.
        """
        self._parts[0].allocate()

    def get_input_details(self) -> list[dict[str, Any]]:
        """One dictionary per input: name, index, shape, dtype, quantization and so on."""
        return [self._parts[0].details(index) for index in self._model.subgraphs[0].inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """The same for every output."""
        return [self._parts[0].details(index) for index in self._model.subgraphs[0].outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """The same for every tensor of a subgraph."""
        part = self._part(subgraph_index)
        return [part.details(tensor.index) for tensor in self._model.subgraphs[subgraph_index].tensors]

    def num_subgraphs(self) -> int:
        """How many subgraphs the file has."""
        return len(self._parts)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy ``value`` into an input; shape and element type must be the input's."""
        self._parts[0].set_tensor(tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """Return a copy of an input, output, constant or tensor that is kept."""
        return np.array(self._part(subgraph_index).view(tensor_index))

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """Return a function that gives a view of what :meth:`get_tensor` copies; inputs may be written."""
        return lambda: self._parts[0].view(tensor_index)

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape of the same rank; ``allocate_tensors`` then compiles again.

        With ``strict`` only dimensions that are -1 in ``shape_signature`` may change.
        """
        self._parts[0].resize(input_index, tuple(int(size) for size in tensor_size), strict)

    def invoke(self) -> None:
        """Compute the outputs from the inputs."""
        self._parts[0].invoke()

    def reset_all_variables(self) -> None:
        """Forget all invocations: variables have their initial content again."""
        self._variables.clear()
        for part in self._parts:
            part.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Argument and result names of every signature: ``{key: {"inputs": [...], "outputs": [...]}}``."""
        return {
            signature.key: {"inputs": list(signature.inputs), "outputs": list(signature.outputs)}
            for signature in self._model.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Return a callable for a signature, which may be left out where the model has one only."""
        signatures = {signature.key: signature for signature in self._model.signatures}
        if signature_key is None:
            if len(signatures) != 1:
                raise InterpreterError(
                    f"SignatureDef signature_key is None and model has {len(signatures)} Signatures. "
                    "None is only allowed when the model has 1 SignatureDef"
                )
            signature_key = next(iter(signatures))
        if signature_key not in signatures:
            raise InterpreterError(f'Invalid signature_key provided: "{signature_key}".')
        signature = signatures[signature_key]
        return SignatureRunner(self._parts[signature.subgraph], signature)

    def _part(self, subgraph: int) -> _Part:
        count = len(self._parts)
        if not 0 <= subgraph < count:
            raise InterpreterError(f"Invalid subgraph index {subgraph} exceeds max subgraph index {count}")
        return self._parts[subgraph]

    def _trace(self, subgraph: int, shapes: Mapping[int, Sequence[int]]) -> Compilation:
        options = Options(
            self._target, self._numerics, shapes=shapes, subgraph=subgraph, threads=self._threads
        )
        return Compilation(self._content, self._source, options)


class SignatureRunner:
    """Runs one signature; see :meth:`Interpreter.get_signature_runner`."""

    def __init__(self, part: _Part, signature: Signature) -> None:
        self._part = part
        self._signature = signature

    def __call__(self, **arguments: Any) -> dict[str, Array]:
        """Run with one array per argument name and return an array per result name.

        Inputs take the shapes of the arrays; where these change, the model is compiled again.
        """
        names = self._signature.inputs
        if len(arguments) != len(names):
            raise InterpreterError(
                "Invalid number of inputs provided for running a SignatureDef, "
                f"expected {len(names)} vs provided {len(arguments)}"
            )
        for name in arguments:
            if name not in names:
                raise InterpreterError(f"Invalid Input name ({name}) for SignatureDef")
        for name, value in arguments.items():
            self._part.resize(names[name], np.shape(value), False)
        self._part.allocate()
        for name, value in arguments.items():
            self._part.set_tensor(names[name], value)
        self._part.invoke()
        return {name: self._part.view(index).copy() for name, index in self._signature.outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Details by argument name."""
        return {name: self._part.details(index) for name, index in self._signature.inputs.items()}

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Details by result name."""
        return {name: self._part.details(index) for name, index in self._signature.outputs.items()}


class _Part:
    """One subgraph: the shapes of its inputs and, after allocation, a session on its code."""

    def __init__(self, owner: Interpreter, number: int, graph: SubGraph) -> None:
        self._owner = owner
        self._number = number
        self._graph = graph
        self._shapes = {index: graph.tensors[index].shape for index in graph.inputs}
        self._session: Session | None = None
        self._resources: dict[Variable, Array] = {}
        self._buffers: dict[int, Array] = {}
        self._inferred: dict[int, tuple[int, ...]] = {}

    def allocate(self) -> None:
        if self._session is not None:
            return
        compilation = self._owner._trace(self._number, self._shapes)
        try:
            if self._owner._preserve:
                compilation = compilation.with_outputs(self._computed(compilation))
            artefact = compilation.artefact(self._owner._cache)
        except ArgumentError as error:
            raise NotReadyError(str(error)) from error
        session = CompiledModel(artefact).session()
        infos = (*compilation.outputs, *compilation.inputs)
        arrays = (*session.outputs, *session.inputs)
        self._buffers = {info.index: array for info, array in zip(infos, arrays, strict=True)}
        states = dict(zip(compilation.imported.variables, session.states, strict=True))
        self._resources = {variable: array for variable, array in states.items() if variable.tensor == -1}
        self._buffers |= {v.tensor: array for v, array in states.items() if v.tensor != -1}
        values = compilation.imported.tensors.items()
        self._inferred = {index: value.type.shape for index, value in values}
        self._session = session

    def _computed(self, compilation: Compilation) -> list[int]:
        """Every tensor that can be kept: inputs and constants stay readable by themselves."""
        return [index for index in compilation.imported.tensors if index not in self._graph.inputs]

    def resize(self, index: int, shape: tuple[int, ...], strict: bool) -> None:
        count = len(self._graph.tensors)
        if not 0 <= index < count:
            raise NotReadyError(f"Invalid tensor index {index} exceeds max tensor index {count}")
        tensor = self._graph.tensors[index]
        if index not in self._shapes:
            raise InterpreterError(f"tensor {index} ({tensor.name!r}) is no input and cannot be resized")
        if min(shape, default=0) < 0:
            raise NotReadyError(f"input {index} cannot have the shape {shape}; expected sizes of at least 1")
        present = self._shapes[index]
        if strict:
            self._check_strict(tensor, present, shape)
        if shape != present:
            self._shapes[index] = shape
            self._session, self._buffers, self._inferred = None, {}, {}

    @staticmethod
    def _check_strict(tensor: Tensor, present: tuple[int, ...], shape: tuple[int, ...]) -> None:
        if len(shape) != len(present):
            raise NotReadyError(
                f"Attempting to resize tensor {tensor.index} with {len(present)} dimensions to {len(shape)}."
            )
        for axis, (old, new) in enumerate(zip(present, shape, strict=True)):
            if old != new and tensor.shape_signature[axis] != -1:
                raise NotReadyError(
                    f"Attempting to resize dimension {axis} of tensor {tensor.index} with value {old} to"
                    f" {new}. ResizeInputTensorStrict only allows mutating unknown dimensions identified"
                    " by -1."
                )

    def set_tensor(self, index: int, value: Any) -> None:
        tensor = self._tensor(index)
        if index not in self._graph.inputs:
            raise InterpreterError(f"Cannot set tensor: {tensor.name!r} (index {index}) is no input")
        if self._session is None:
            raise InterpreterError(
                "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first"
            )
        buffer, array = self._buffers[index], np.asarray(value)
        if array.dtype != buffer.dtype:
            raise InterpreterError(_wrong_dtype(array, buffer, tensor))
        if array.ndim != buffer.ndim:
            raise InterpreterError(
                f"Cannot set tensor: Dimension mismatch. Got {array.ndim} but expected {buffer.ndim} "
                f"for input {index}."
            )
        for axis, (found, wanted) in enumerate(zip(array.shape, buffer.shape, strict=True)):
            if found != wanted:
                raise InterpreterError(
                    f"Cannot set tensor: Dimension mismatch. Got {found} but expected {wanted} "
                    f"for dimension {axis} of input {index}."
                )
        buffer[...] = array

    def view(self, index: int) -> Array:
        tensor = self._tensor(index)
        if index in self._buffers:
            return self._buffers[index]
        if tensor.data is not None:
            return tensor.data
        if self._session is None:
            raise InterpreterError("Tensor data is null. Run allocate_tensors() first")
        raise InterpreterError(
            f"tensor {index} ({tensor.name!r}) is neither input, output nor constant: it shares its memory"
            " with others and is kept only with experimental_preserve_all_tensors=True"
        )

    def invoke(self) -> None:
        if self._session is None:
            raise NotReadyError("Invoke called on model that is not ready.")
        if not self._resources:
            self._session.run()
            return
        shared = self._owner._variables
        for variable, array in self._resources.items():
            array[...] = shared.get(variable, array)
        self._session.run()
        shared.update((variable, array.copy()) for variable, array in self._resources.items())

    def reset(self) -> None:
        if self._session is not None:
            self._session.reset()

    def details(self, index: int) -> dict[str, Any]:
        tensor = self._tensor(index)
        shape = self._inferred.get(index, self._shapes.get(index, tensor.shape))
        quantization = tensor.quantization
        scales = np.zeros(0, np.float32) if quantization is None else quantization.scales
        zero_points = np.zeros(0, np.int32) if quantization is None else quantization.zero_points
        single = len(scales) == 1
        return {
            "name": tensor.name,
            "index": tensor.index,
            "shape": np.array(shape, np.int32),
            "shape_signature": np.array(tensor.shape_signature, np.int32),
            "dtype": _scalar_type(tensor),
            "quantization": (float(scales[0]), int(zero_points[0])) if single else (0.0, 0),
            "quantization_parameters": {
                "scales": np.array(scales, np.float32),
                "zero_points": np.array(zero_points, np.int32),
                "quantized_dimension": 0 if quantization is None else quantization.axis,
                "block_size": 0,
            },
            "sparsity_parameters": {},
        }

    def _tensor(self, index: int) -> Tensor:
        count = len(self._graph.tensors)
        if not 0 <= index < count:
            raise InterpreterError(f"Invalid tensor index {index} exceeds max tensor index {count}")
        return self._graph.tensors[index]


def _scalar_type(tensor: Tensor) -> Any:
    kind = ELEMENT_TYPES[tensor.dtype]
    return np.bytes_ if kind.bits is None else np.dtype(kind.codes).type


def _wrong_dtype(array: Array, buffer: Array, tensor: Tensor) -> str:
    sentence = (
        f"Cannot set tensor: Got value of type {array.dtype.name.upper()} but expected type "
        f"{buffer.dtype.name.upper()} for input {tensor.index}, name: {tensor.name} "
    )
    quantization = tensor.quantization
    if array.dtype.kind != "f" or quantization is None or len(quantization.scales) != 1:
        return sentence
    scale, zero_point = float(quantization.scales[0]), int(quantization.zero_points[0])
    return f"{sentence}(real = {scale:.9g} * (code - {zero_point}))"


def _check_threads(num_threads: int | None) -> int:
    if num_threads is None:
        return 1
    if not isinstance(num_threads, int):
        raise InterpreterError("type of num_threads should be int")
    if num_threads < 1:
        raise InterpreterError("num_threads should >= 1")
    return min(num_threads, MOST_THREADS)


def _choose_numerics(numerics: str | None, resolver: Any, preserve: bool) -> Numerics:
    """As TFLite does it: where all tensors are kept there is no delegate."""
    if numerics is not None:
        return check_numerics(numerics)
    if resolver is None:
        return "reference"
    name = str(getattr(resolver, "name", resolver))
    if name not in RESOLVER_NUMERICS:
        raise InterpreterError(f"Unrecognized passed in op resolver type: {resolver}")
    chosen = RESOLVER_NUMERICS[name]
    return "builtin" if preserve and chosen == "xnnpack" else chosen


def _read(
    path: str | os.PathLike[str] | None, content: bytes | bytearray | memoryview | None
) -> tuple[Content, str]:
    if path and content:
        raise InterpreterError("Can't both provide `model_path` and `model_content`")
    if content:
        return bytes(content), ""
    if not path:
        raise InterpreterError("`model_path` or `model_content` must be specified.")
    try:
        return read_source(path)
    except ArgumentError as error:
        raise InterpreterError(f"Could not open {os.fspath(path)!r}: {error}") from error
