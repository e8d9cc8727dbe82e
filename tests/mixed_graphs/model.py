"""The growing model and the table of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from qimport.frontend.ops.context import IMPORTERS
from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE, TensorType
from tests.one_operator.variables import initialize
from tests.random_models import STEPS as EIGHT_BIT_STEPS
from tests.random_models import DoesNotFit, RandomModel, Tensor
from tests.single_op import quantized

CODES = ("int8", "uint8", "int16")
INTEGERS = ("int32", "int64")
ALL = (*CODES, *INTEGERS, "float32", "bool")

LARGEST_FED = 16.0
LARGEST = 1e18
"""Magnitudes of floats: what is fed, and beyond which a step does not fit."""

VERSIONS = {
    "CONV_2D": 5,
    "DEPTHWISE_CONV_2D": 5,
    "DEPTH_TO_SPACE": 1,
    "FULLY_CONNECTED": 9,
    "SQUEEZE": 1,
}
"""Operators for which the second version is too early or too late."""

INVOCATIONS = 3

Step = Callable[["MixedModel", Tensor], None]

STEPS: dict[str, list[Step]] = {dtype: [] for dtype in ALL}
"""What may follow a tensor of an element type; some steps more often."""


def step(*dtypes: str, weight: int = 1) -> Callable[[Step], Step]:
    """Enter a function into :data:`STEPS`."""

    def register(function: Step) -> Step:
        for dtype in dtypes:
            STEPS[dtype] += [function] * weight
        return function

    return register


def old_step(function: Callable[[RandomModel, Tensor], None]) -> Step:
    """A step of the base class, none of which takes scalars."""

    def apply(g: MixedModel, x: Tensor) -> None:
        if not x.type.shape:
            raise DoesNotFit
        function(g, x)

    return apply


for _function in EIGHT_BIT_STEPS:
    step("int8", "uint8")(old_step(_function))


class MixedModel(RandomModel):
    """Grows a model of mixed element types, perhaps with variables that outlive an invocation."""

    def __init__(self, seed: int) -> None:
        self.limits: dict[int, float] = {}
        self.hidden: set[Tensor] = set()
        self.outer: list[Any] = []
        self.bodies: list[Any] = []
        self.variables: dict[str, tuple[TensorType, Array]] = {}
        super().__init__(seed)
        if self.draw.pick(True, False):
            self.feed(self.new_type(self.draw.pick(*ALL), self.shape()))

    def grow(self, steps: int) -> bytes:
        """The file after ``steps`` operators."""
        self.add_steps(steps)
        return self.file()

    def add_steps(self, count: int) -> None:
        """Add ``count`` operators or a few more."""
        enough = len(self.operators) + count
        while len(self.operators) < enough or not self.computed:
            x = self.start()
            try:
                self.draw.pick(*STEPS[x.type.dtype])(self, x)
            except DoesNotFit:
                continue

    def start(self) -> Tensor:
        """What the next step is applied to: something recent, something old, or a new constant."""
        chance = self.draw.rng.random()
        if chance < 0.6 and self.computed:
            return self.computed[-1 - int(self.draw.rng.integers(min(3, len(self.computed))))]
        if chance < 0.95:
            return self.draw.pick(*self.inputs, *self.computed)
        return self.constant(self.new_type(self.draw.pick(*ALL), self.shape()))

    def file(self) -> bytes:
        """The file; some unread tensors are no results, some read ones are, some twice, inputs too."""
        rng = self.draw.rng
        shown = self.shown()
        often = self.draw.pick((0.15, 0.8), (0.15, 0.8), (0.0, 0.8), (0.0, 0.2))
        outputs = [t for t in shown if rng.random() < often[t.index not in self.read]]
        outputs = outputs or shown[-1:] or self.inputs[:1]
        outputs += [t for t in (*outputs[:1], *self.inputs[:1]) if rng.random() < 0.08]
        indices = [outputs[i].index for i in rng.permutation(len(outputs))]
        inputs = [t.index for t in self.inputs]
        if not self.variables and not self.bodies:
            return self.model.build(inputs, indices)
        self.model.next_subgraph(inputs, indices)
        initialize(self.model, self.variables)
        self.model.subgraphs += self.bodies
        return self.model.build()

    def shown(self) -> list[Tensor]:
        """What may be a result; not expanded constants, for which the delegate has no memory."""
        return [t for t in self.computed if t not in self.hidden]

    def invocations(self) -> list[list[Array]]:
        """Inputs of successive invocations."""
        return [[self.values(t.type) for t in self.inputs] for _ in range(INVOCATIONS)]

    # Subgraphs: the main one, what initializes variables, bodies of control flow

    @contextmanager
    def subgraph(self) -> Iterator[int]:
        """Grow another subgraph meanwhile; gives its number."""
        names = ("inputs", "computed", "read", "weights", "limits", "hidden")
        kept = {name: getattr(self, name) for name in names}
        self.outer.append(self.model.subgraphs)
        self.model.subgraphs = [type(self.model.subgraphs[0])("body")]
        self.bodies += self.model.subgraphs
        self.inputs, self.computed, self.read = [], [], set()
        self.weights, self.limits, self.hidden = {}, {}, set()
        try:
            yield 1 + len(self.bodies)
        finally:
            self.model.subgraphs = self.outer.pop()
            vars(self).update(kept)

    def end_subgraph(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say what goes in and out of the subgraph that grows."""
        self.model.subgraphs[-1].inputs, self.model.subgraphs[-1].outputs = inputs, outputs

    def feed(self, type_: TensorType) -> Tensor:
        """A new input; in bodies a constant."""
        return self.constant(type_) if self.outer else super().feed(type_)

    # Tensors

    def new_type(self, dtype: str, shape: Sequence[int]) -> TensorType:
        """A type, quantized if its elements are codes."""
        if dtype not in CODES:
            return TensorType(dtype, tuple(shape))
        if dtype == "int16":
            return quantized(dtype, shape, self.draw.scale(1e-5, 1e-2), 0)
        return self.draw.tensor(dtype, shape)

    def values(self, type_: TensorType) -> Array:
        """Any codes and booleans, integers of all sizes, floats of which many are halves."""
        rng, dtype, shape = self.draw.rng, type_.dtype, type_.shape
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(np.bool_)
        if dtype == "float32":
            drawn = np.clip(rng.normal(0, self.draw.pick(0.2, 2, 6), shape), -LARGEST_FED, LARGEST_FED)
            return np.where(rng.random(shape) < 0.3, np.rint(drawn * 2) / 2, drawn).astype(np.float32)
        lowest, highest = INTEGER_RANGE[dtype]
        if dtype in CODES and self.draw.pick(True, False, False, False):
            return rng.choice(np.array([lowest, highest], type_.numpy), shape)
        drawn = rng.integers(lowest, highest, shape, np.int64, endpoint=True)
        if dtype in INTEGERS:
            drawn >>= rng.integers(0, 63 if dtype == "int64" else 31, shape)
        return drawn.astype(type_.numpy)

    def limit(self, t: Tensor) -> float:
        """No element is larger in magnitude."""
        if t.type.dtype == "float32":
            return self.limits.get(t.index, LARGEST_FED)
        return float(max(map(abs, INTEGER_RANGE.get(t.type.dtype, (0, 1)))))

    def emit_results(
        self,
        name: str,
        operands: Sequence[Tensor | int],
        types: Sequence[TensorType],
        limit: float | None = None,
        **options: Any,
    ) -> list[Tensor]:
        """Add an operator; ``limit`` is the magnitude of float results, by default that of the operands."""
        floats = [t for t in operands if isinstance(t, Tensor) and t.type.dtype == "float32"]
        largest = max((self.limit(t) for t in floats), default=LARGEST_FED) if limit is None else limit
        if largest > LARGEST or max(len(type_.shape) for type_ in types) > 5:
            raise DoesNotFit
        results = super().emit_results(name, operands, types, **options)
        self.limits.update({t.index: largest for t in results})
        if name == "DEQUANTIZE" and any(isinstance(t, Tensor) and t.constant for t in operands):
            self.hidden.update(results)
        return results

    def version(self, name: str) -> int:
        """The second version, or what is nearest or fits all element types."""
        known = IMPORTERS[name].versions
        return VERSIONS.get(name, max(known[0], min(2, known[-1])))

    def alike(self, x: Tensor) -> Tensor:
        """Another operand of the very type of ``x``."""
        return self.partner(x, x.type.shape, x.type)

    def other(self, x: Tensor) -> Tensor:
        """Another operand whose shape stretches to that of ``x``."""
        shape = x.type.shape
        if self.draw.pick(True, False):
            ones = tuple(n if self.draw.pick(True, False) else 1 for n in shape)
            shape = ones[self.draw.pick(0, 0, 1) :]
        return self.partner(x, shape)

    def axis(self, x: Tensor) -> int:
        """One of the dimensions of ``x``."""
        if not x.type.shape:
            raise DoesNotFit
        return int(self.draw.rng.integers(len(x.type.shape)))

    # Operators of the base class on further element types

    def weighted(
        self,
        name: str,
        x: Tensor,
        shape: tuple[int, ...],
        axis: int,
        taps: int,
        result: tuple[int, ...],
        **options: Any,
    ) -> None:
        """Weights of 8 bits beside codes, of floats or 8 bits beside floats."""
        from tests.mixed_graphs.weighted import float_weighted, weighted16

        if x.type.itemsize == 1:
            super().weighted(name, x, shape, axis, taps, result, **options)
            return
        kind = weighted16 if x.type.dtype == "int16" else float_weighted
        kind(self, name, x, shape, axis, taps, result, **options)
