"""Text to graph: a recursive-descent parser without tokens; the grammar stands in :mod:`qimport.ir.text`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

import numpy as np

from qimport.errors import ParseError, VerifyError
from qimport.ir.attributes import attribute_hints, coerce, did_you_mean, mandatory_attributes
from qimport.ir.graph import OPERATIONS, Array, Graph, Node, Operation, State, Value
from qimport.ir.printer import blob_name
from qimport.ir.types import DTYPE_BY_SHORT_NAME, INTEGER_RANGE, Quantization, TensorType

MAX_TENSOR_BYTES = 2**31
MAX_GENERATED_BYTES = 2**28
MAX_RANK = 64
MAX_DIGITS = 40
MAX_NESTING = 16

_SPACE = re.compile(r"(?:\s+|;[^\n]*)*")
_NAME = re.compile(r"[\w./-]+", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_VALUE = re.compile(r"%[\w./-]+", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_NUMBER = re.compile(
    r"nan|-?(?:inf|0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?[pP][+-]?\d+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)", re.ASCII
)
_SHAPE = re.compile(r"(?:\d{1,10}(?:x\d{1,10})*)?(?=\s*\])", re.ASCII)
_FLOAT_MAX = {dtype: float(np.finfo(dtype).max) for dtype in ("float16", "float32", "float64")}
_CONSTANTS: dict[str, bool | None] = {"True": True, "False": False, "None": None}

T = TypeVar("T")


def parse_graph(text: str, blobs: Mapping[str, Array] | None = None) -> Graph:
    """Read one graph of any dialect whose operations are registered, and verify it.

    ``blobs`` holds the constants printed as ``blob("name")``, as :func:`collect_blobs` returns them.

    Raises:
        ParseError: with line, column and a caret: bad syntax, unknown or repeated names, attributes or types
            that do not fit, or a node that breaks a constraint of its operation.
    """
    parser = _Parser(text, blobs or {})
    graph = parser.graph()
    parser.finish()
    return graph


def parse_array(text: str, type_: TensorType) -> Array:
    """Read the ``data`` part of a constant of ``type_``. Raises :class:`ParseError`."""
    parser = _Parser(text, {})
    array = parser.data(type_)
    parser.finish()
    return array


def random_array(type_: TensorType, seed: int) -> Array:
    """What ``fill(seed=...)`` means: uniform over all integers of the type, or over [-1, 1) for floats."""
    rng = np.random.default_rng(seed)
    if type_.dtype == "bool":
        return rng.integers(0, 2, type_.shape).astype(np.bool_)
    if type_.dtype in INTEGER_RANGE:
        low, high = INTEGER_RANGE[type_.dtype]
        drawn: Array = rng.integers(low, high, type_.shape, np.dtype(type_.dtype).type, endpoint=True)
        return np.asarray(drawn)
    return np.asarray(rng.uniform(-1, 1, type_.shape)).astype(type_.numpy)


class _Scanner:
    """A position in a text. Every method that consumes something also skips the space behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.move(0)

    def move(self, position: int) -> None:
        found = _SPACE.match(self.text, position)
        self.position = found.end() if found else position

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise :class:`ParseError` for the current or the given position."""
        position = min(self.position if at is None else at, len(self.text.rstrip()))
        start = self.text.rfind("\n", 0, position) + 1
        line = self.text.count("\n", 0, position) + 1
        content = self.text[start:].partition("\n")[0].rstrip()
        raise ParseError(message, line, position - start + 1, content)

    def finish(self) -> None:
        if self.position < len(self.text):
            self.fail("expected the end of the text")

    def peek(self, literal: str) -> bool:
        return self.text.startswith(literal, self.position)

    def accept(self, literal: str) -> bool:
        found = self.peek(literal)
        if found:
            self.move(self.position + len(literal))
        return found

    def expect(self, literal: str) -> None:
        if not self.accept(literal):
            self.fail(f"expected {literal!r}")

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self.text, self.position)
        if not found:
            self.fail(f"expected {what}")
        self.move(found.end())
        return found.group()

    def several(self, item: Callable[[], T], close: str) -> list[T]:
        """Items separated by commas up to and including ``close``, possibly none."""
        items: list[T] = []
        while not self.accept(close):
            if items and not self.accept(","):
                self.fail(f"expected ',' or {close!r}")
            items.append(item())
        return items


class _LiteralParser(_Scanner):
    """Numbers, strings, attribute values, types and constant data."""

    def __init__(self, text: str, blobs: Mapping[str, Array]) -> None:
        super().__init__(text)
        self.blobs = blobs

    def string(self) -> str:
        at = self.position
        quoted = self.take(_STRING, "a quoted string")
        try:
            return str(json.loads(quoted))
        except ValueError:
            self.fail("bad escape or control character in a string", at)

    def number(self) -> int | float:
        at = self.position
        digits = self.take(_NUMBER, "a number")
        try:
            if len(digits) > MAX_DIGITS:
                raise OverflowError
            if _INTEGER.fullmatch(digits):
                return int(digits)
            value = float.fromhex(digits) if "x" in digits.lower() else float(digits)
        except (OverflowError, ValueError):
            self.fail("number out of range", at)
        if math.isinf(value) and not digits.endswith("inf"):
            self.fail("number out of range", at)
        return value

    def integer(self, low: int, high: int) -> int:
        at = self.position
        value = self.number()
        if not isinstance(value, int) or not low <= value <= high:
            self.fail(f"expected an integer from {low} to {high}", at)
        return value

    def scalar(self, dtype: str) -> int | float | bool:
        """One element of a constant."""
        at = self.position
        if dtype == "bool":
            word = self.take(_WORD, "True or False")
            if word not in ("True", "False"):
                self.fail("expected True or False", at)
            return word == "True"
        if dtype in INTEGER_RANGE:
            return self.integer(*INTEGER_RANGE[dtype])
        if dtype not in _FLOAT_MAX:
            self.fail(f"the elements of {dtype} must come from a blob")
        value = float(self.number())
        if math.isfinite(value) and abs(value) > _FLOAT_MAX[dtype]:
            self.fail(f"number does not fit into {dtype}", at)
        return value

    def literal(self, depth: int = 0) -> object:
        """An attribute value."""
        at = self.position
        if self.accept("("):
            if depth == MAX_NESTING:
                self.fail("tuples are nested too deeply", at)
            return tuple(self.several(lambda: self.literal(depth + 1), ")"))
        if self.peek('"'):
            return self.string()
        word = _WORD.match(self.text, at)
        if word and word.group() in _CONSTANTS:
            self.move(word.end())
            return _CONSTANTS[word.group()]
        return self.number()

    def type(self) -> TensorType:
        at = self.position
        short = self.take(_WORD, "a type")
        if short not in DTYPE_BY_SHORT_NAME:
            self.fail(f"unknown element type {short}{did_you_mean(short, DTYPE_BY_SHORT_NAME)}", at)
        self.expect("[")
        sizes = self.take(_SHAPE, "a shape such as 1x8x8x3")
        self.expect("]")
        plain = TensorType(DTYPE_BY_SHORT_NAME[short], tuple(map(int, sizes.split("x"))) if sizes else ())
        extents = [max(size, 1) for size in plain.shape]  # NumPy's own limit ignores sizes of 0, too
        if len(extents) > MAX_RANK or math.prod(extents) * plain.itemsize > MAX_TENSOR_BYTES:
            self.fail(f"tensor of more than {MAX_RANK} dimensions or {MAX_TENSOR_BYTES} bytes", at)
        if not self.accept("<"):
            return plain
        return TensorType(plain.dtype, plain.shape, self.quantization(plain.shape))

    def quantization(self, shape: tuple[int, ...]) -> Quantization:
        """What stands between ``<`` and ``>``."""
        at = self.position
        pairs = [self.scale_and_zero()]
        while self.accept(","):
            pairs.append(self.scale_and_zero())
        axis = self.integer(0, max(len(shape) - 1, 0)) if self.accept("@") else None
        self.expect(">")
        count = 1 if axis is None or not shape else shape[axis]
        if len(pairs) not in (1, count):  # one scale may state an axis, see Quantization
            self.fail(f"{len(pairs)} scales where {count} are needed", at)
        scales, zeros = zip(*pairs, strict=True)
        return Quantization(scales, zeros, axis)

    def scale_and_zero(self) -> tuple[float, int]:
        at = self.position
        scale = float(np.float32(self.scalar("float32")))
        if not 0 < scale < math.inf:
            self.fail("a scale must be a positive float32", at)
        self.expect(":")
        return scale, self.integer(*INTEGER_RANGE["int32"])

    def data(self, type_: TensorType) -> Array:
        """The content of a constant."""
        at = self.position
        kind = self.take(_WORD, "constant data")
        if kind == "dense":
            self.expect("[")
            elements = self.several(lambda: self.scalar(type_.dtype), "]")
            if len(elements) != type_.size:
                self.fail(f"{len(elements)} elements given, {type_} has {type_.size}", at)
            return np.array(elements, type_.numpy).reshape(type_.shape)
        self.expect("(")
        if kind in ("splat", "fill") and type_.nbytes > MAX_GENERATED_BYTES:
            self.fail(f"more than {MAX_GENERATED_BYTES} bytes must come from a blob", at)
        if kind == "splat":
            array: Array = np.full(type_.shape, self.scalar(type_.dtype), type_.numpy)
        elif kind == "fill":
            self.expect("seed")
            self.expect("=")
            array = random_array(type_, self.integer(0, 2**63 - 1))
        elif kind == "blob":
            array = self.blob(type_)
        else:
            self.fail(f"unknown data {kind}{did_you_mean(kind, ('dense', 'splat', 'fill', 'blob'))}", at)
        self.expect(")")
        return array

    def blob(self, type_: TensorType) -> Array:
        """Bytes are shared between constants whatever their types, so they are viewed as ``type_``."""
        at = self.position
        name = self.string()
        found = self.blobs.get(name)
        if found is None:
            self.fail(f"blob {name} was not given", at)
        if found.nbytes != type_.nbytes or blob_name(found) != name:
            self.fail(f"blob {name} does not hold the {type_.nbytes} bytes it names", at)
        raw = np.ascontiguousarray(found).reshape(-1).view(np.uint8)
        return raw.view(type_.numpy).reshape(type_.shape)


class _Parser(_LiteralParser):
    """Graphs. What it returns is in single assignment form and every node has been verified."""

    def __init__(self, text: str, blobs: Mapping[str, Array]) -> None:
        super().__init__(text, blobs)
        self.depth = 0
        self.begin()

    def begin(self) -> None:
        """Forget the graph around the one to be read: names inside are its own."""
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.states: dict[Value, Array] = {}

    def body(self) -> Graph:
        """A graph inside another one."""
        around = self.values, self.nodes, self.states
        if self.depth == MAX_NESTING:
            self.fail("graphs are nested too deeply")
        self.depth += 1
        self.begin()
        found = self.graph()
        self.values, self.nodes, self.states = around
        self.depth -= 1
        return found

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("@")
        name = self.take(_NAME, "a name")
        self.expect("(")
        inputs = self.several(self.parameter, ")")
        self.expect("{")
        while self.peek("%"):
            self.statement()
        following = self.following()
        if not self.accept("return"):
            self.fail("expected a statement or 'return'")
        outputs = self.several(self.use, "}")
        states = tuple(State(value, following[value], data) for value, data in self.states.items())
        return Graph(name, tuple(inputs), tuple(outputs), tuple(self.nodes), states)

    def following(self) -> dict[Value, Value]:
        """What every state is after the call, each said once."""
        found: dict[Value, Value] = {}
        while self.accept("next"):
            at = self.position
            state = self.use()
            if state not in self.states or state in found:
                self.fail(f"%{state.name} is {'given twice' if state in found else 'no state'}", at)
            self.expect("=")
            at = self.position
            found[state] = self.use()
            if found[state].type != state.type:
                self.fail(f"the state is {state.type}, this is {found[state].type}", at)
        for state in self.states:
            if state not in found:
                self.fail(f"nothing says what the state %{state.name} becomes: expected 'next'")
        return found

    def parameter(self) -> Value:
        name = self.new_name()
        self.expect(":")
        return self.define(name, Value(self.type()))

    def new_name(self) -> str:
        at = self.position
        name = self.take(_VALUE, "a value such as %x")[1:]
        if name in self.values:
            self.fail(f"%{name} is already defined", at)
        return name

    def define(self, name: str, value: Value) -> Value:
        value.name = name
        self.values[name] = value
        return value

    def use(self) -> Value:
        at = self.position
        name = self.take(_VALUE, "a value such as %x")
        found = self.values.get(name[1:])
        if found is None:
            known = [f"%{value}" for value in self.values]
            self.fail(f"{name} is not defined before this use{did_you_mean(name, known)}", at)
        return found

    def operand(self) -> Value | None:
        return None if self.accept("_") else self.use()

    def statement(self) -> None:
        at = self.position
        names = [self.new_name()]
        while self.accept(","):
            names.append(self.new_name())
        if len(set(names)) < len(names):
            self.fail("one name for several results", at)
        self.expect("=")
        at = self.position
        word = self.take(_WORD, "'constant', 'state' or an operation")
        if word in ("constant", "state"):
            if len(names) > 1:
                self.fail(f"a {word} has one name", at)
            type_ = self.type()
            data = self.data(type_)
            value = self.define(names[0], Value(type_, data=data if word == "constant" else None))
            if word == "state":
                self.states[value] = data
        elif word in OPERATIONS:
            self.node(OPERATIONS[word], names, at)
        else:
            self.fail(f"unknown operation {word}{did_you_mean(word, [*OPERATIONS, 'constant', 'state'])}", at)

    def node(self, op: type[Operation], names: list[str], at: int) -> None:
        """Everything behind the operation's name, which stands ``at``."""
        self.expect("(")
        operands = self.several(self.operand, ")")
        attributes = self.attributes(op) if self.accept("{") else {}
        absent = [name for name in mandatory_attributes(op) if name not in attributes]
        if absent:
            self.fail(f"{op.NAME} needs the attribute {absent[0]}", at)
        self.expect(":")
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        if len(types) != len(names):
            self.fail(f"{len(names)} results, but {len(types)} result types", at)
        origin = self.string() if self.accept("from") else ""
        bodies = self.bodies()
        try:
            results = tuple(map(Value, types))
            node = Node(op(**attributes), tuple(operands), results, origin, bodies)
            node.op.verify(node.call())
        except VerifyError as error:
            self.fail(f"{op.NAME}: {error}", at)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # Rules may index shapes by attributes that have not been checked yet; in text anything can stand.
            self.fail(f"{op.NAME}: operands and attributes do not fit together ({error})", at)
        for name, value in zip(names, results, strict=True):
            self.define(name, value)
        self.nodes.append(node)

    def bodies(self) -> tuple[Graph, ...]:
        """The graphs of a node of control flow, which have no states."""
        found: list[Graph] = []
        while self.accept("," if found else "with"):
            at = self.position
            found.append(self.body())
            if found[-1].states:
                self.fail("a graph inside another one cannot have states", at)
        return tuple(found)

    def attributes(self, op: type[Operation]) -> dict[str, object]:
        """``name=literal`` up to the closing brace, checked against the operation's fields."""
        hints, found = attribute_hints(op), dict[str, object]()

        def attribute() -> None:
            at = self.position
            name = self.take(_WORD, "an attribute")
            if name not in hints:
                self.fail(f"{op.NAME} has no attribute {name}{did_you_mean(name, hints)}", at)
            if name in found:
                self.fail(f"attribute {name} is given twice", at)
            self.expect("=")
            try:
                found[name] = coerce(self.literal(), hints[name])
            except TypeError as error:
                self.fail(f"attribute {name} {error}", at)

        self.several(attribute, "}")
        return found
