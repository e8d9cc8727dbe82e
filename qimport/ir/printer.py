"""Graph to text; the grammar stands in :mod:`qimport.ir.text`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import textwrap

import numpy as np

from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Graph, Node, Operation, Value

_ILLEGAL = re.compile(r"[^\w./-]", re.ASCII)


def print_graph(graph: Graph, *, max_inline: int = 64) -> str:
    """The text of ``graph``; constants of more than ``max_inline`` elements print as the hash of their bytes.

    Works for graphs that do not verify, too. Raises :class:`CompilerBug` for an attribute of a type that no
    attribute may have.
    """
    names = _Names()
    inputs = ", ".join(f"%{names[value]}: {value.type}" for value in graph.inputs)
    lines = [f"graph @{_ILLEGAL.sub('_', graph.name) or '_'}({inputs}) {{"]
    for state in graph.states:
        content = format_array(state.initial, max_inline)
        lines.append(f"  %{names[state.before]} = state {state.before.type} {content}")

    def use(value: Value | None) -> str:
        if value is None:
            return "_"
        if value.data is not None and value not in names:
            lines.append(f"  %{names[value]} = constant {value.type} {format_array(value.data, max_inline)}")
        return f"%{names[value]}"

    for node in graph.nodes:
        operands = ", ".join([use(value) for value in node.inputs])
        results = ", ".join(f"%{names[value]}" for value in node.outputs)
        lines.append(f"  {results} = {node.op.NAME}({operands}){_tail(node)}{_bodies(node, max_inline)}")
    # Both may define constants, which stand before the first ``next``.
    following = [f"  next %{names[state.before]} = {use(state.after)}" for state in graph.states]
    results = ", ".join([use(value) for value in graph.outputs])
    return "\n".join([*lines, *following, f"  return {results}".rstrip(), "}\n"])


def _tail(node: Node) -> str:
    """Attributes, result types and origin."""
    attributes = format_attributes(node.op)
    types = ", ".join(str(value.type) for value in node.outputs)
    origin = f" from {json.dumps(node.origin)}" if node.origin else ""
    return f"{f' {{{attributes}}}' if attributes else ''} : {types}{origin}"


def _bodies(node: Node, max_inline: int) -> str:
    """The graphs that a node of control flow runs, indented by one level more."""
    if not node.bodies:
        return ""
    texts = [print_graph(body, max_inline=max_inline).rstrip() for body in node.bodies]
    return " with\n" + textwrap.indent(",\n".join(texts), "    ")


def format_attributes(op: Operation) -> str:
    """``name=literal`` of every attribute, sorted by name; what all operations have only if it is unusual."""
    fields = dataclasses.fields(op)  # type: ignore[arg-type]
    names = sorted(f.name for f in fields if not f.kw_only or getattr(op, f.name) != f.default)
    return ", ".join(f"{name}={_literal(getattr(op, name))}" for name in names)


def _literal(value: object) -> str:
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))})"
    raise CompilerBug(f"{value!r} of type {type(value).__name__} is no attribute value")


def format_array(data: Array, max_inline: int = 64) -> str:
    """The ``data`` part of a constant: ``dense[...]``, ``splat(...)`` or ``blob("...")``."""
    return _inline(data, max_inline) or f'blob("{blob_name(data)}")'


def _inline(data: Array, max_inline: int) -> str | None:
    """``data`` as text that gives it back bit by bit, or None if that is too long or impossible."""
    flat = np.ascontiguousarray(data).reshape(-1)
    if flat.size <= max_inline and _prints_exactly(flat):
        return f"dense[{', '.join(map(_literal, flat.tolist()))}]"
    bits = flat.view(f"u{flat.dtype.itemsize}")
    if flat.size and _prints_exactly(flat[:1]) and bool(np.all(bits == bits[0])):
        return f"splat({_literal(flat[0].item())})"
    return None


def _prints_exactly(flat: Array) -> bool:
    """Whether no element is complex, or a NaN whose sign or payload the word ``nan`` would lose."""
    if flat.dtype.kind == "c":
        return False
    if flat.dtype.kind != "f":
        return True
    odd = flat[np.isnan(flat)]
    return odd.tobytes() == np.full(odd.shape, np.nan, odd.dtype).tobytes()


def blob_name(data: Array) -> str:
    """The name of a large constant beside the text: 16 hexadecimal digits, the BLAKE2b hash of its bytes."""
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return hashlib.blake2b(raw.data, digest_size=8).hexdigest()


def collect_blobs(graph: Graph, *, max_inline: int = 64) -> dict[str, Array]:
    """What ``print_graph`` with the same ``max_inline`` prints as blobs, by name."""
    contents = [state.initial for state in graph.states]
    contents += [value.data for value in graph.constants() if value.data is not None]
    found = {blob_name(data): data for data in contents if _inline(data, max_inline) is None}
    for body in (body for node in graph.nodes for body in node.bodies):
        found |= collect_blobs(body, max_inline=max_inline)
    return found


class _Names:
    """Gives every value a legal name of its own: its name, with a number if that is taken; or just a number.

    Values whose names are legal and distinct keep them, which makes printing idempotent.
    """

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._names

    def __getitem__(self, value: Value) -> str:
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = self._unique(_ILLEGAL.sub("_", value.name))
            self._taken.add(name)
        return name

    def _unique(self, base: str) -> str:
        if base and base not in self._taken:
            return base
        prefix, number = (f"{base}.", self._next.get(base, 1)) if base else ("", self._next.get(base, 0))
        while f"{prefix}{number}" in self._taken:
            number += 1
        self._next[base] = number + 1
        return f"{prefix}{number}"
