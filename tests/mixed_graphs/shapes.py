"""Shape arithmetic, which folds, and further movements."""

from __future__ import annotations

from qimport.ir.types import TensorType
from tests.mixed_graphs.model import ALL, CODES, INTEGERS, MixedModel, step
from tests.random_models import DoesNotFit, Tensor


@step(*ALL)
def reshape_by_shape(g: MixedModel, x: Tensor) -> None:
    """RESHAPE to what SHAPE and arithmetic say: the shape of another tensor, or the last dimension apart."""
    rank = len(x.type.shape)
    same = [t for t in (*g.computed, *g.inputs) if t.type.size == x.type.size and 0 < len(t.type.shape) < 5]
    if same and g.draw.pick(True, False):
        like = g.draw.pick(*same)
        shape = like.type.shape
        stated = g.emit("SHAPE", [like], TensorType("int32", (len(shape),)), out_type="INT32")
    elif rank:
        whole = g.emit("SHAPE", [x], TensorType("int32", (rank,)), out_type="INT32")
        last = g.emit(
            "STRIDED_SLICE",
            [whole, g.integers([rank - 1]), g.integers([rank]), g.integers([1])],
            TensorType("int32", ()),
            shrink_axis_mask=1,
        )
        rest = Tensor(g.integers(-1), TensorType("int32", ()), True)
        stated = g.emit("PACK", [rest, last], TensorType("int32", (2,)), axis=0, values_count=2)
        shape = (x.type.size // x.type.shape[-1], x.type.shape[-1])
    else:
        raise DoesNotFit
    g.emit("RESHAPE", [x, stated], x.type.with_shape(shape), with_options=False)


@step(*ALL)
def squeeze(g: MixedModel, x: Tensor) -> None:
    """SQUEEZE of one dimension."""
    ones = [axis for axis, size in enumerate(x.type.shape) if size == 1]
    if not ones:
        raise DoesNotFit
    axis = g.draw.pick(*ones)
    out = x.type.with_shape((*x.type.shape[:axis], *x.type.shape[axis + 1 :]))
    g.emit("SQUEEZE", [x], out, squeeze_dims=[axis])


@step(*ALL)
def gather_nd(g: MixedModel, x: Tensor) -> None:
    """GATHER_ND at constant places."""
    if not x.type.shape:
        raise DoesNotFit
    depth = int(g.draw.rng.integers(1, len(x.type.shape) + 1))
    count = int(g.draw.pick(1, 3, 7))
    places = g.draw.rng.integers(0, x.type.shape[:depth], (count, depth))
    g.emit("GATHER_ND", [x, g.integers(places)], x.type.with_shape((count, *x.type.shape[depth:])))


@step(*CODES, *INTEGERS, "float32")
def space_to_batch(g: MixedModel, x: Tensor) -> None:
    """SPACE_TO_BATCH_ND and often back again, as converters write dilated convolutions."""
    batch, height, width, channels = g.image(x)
    block = g.numbers(2)
    margin = [[0, -height % block[0]], [0, -width % block[1]]]
    inner = [-(-n // b) for n, b in zip((height, width), block, strict=True)]
    out = x.type.with_shape((batch * block[0] * block[1], *inner, channels))
    spread = g.emit("SPACE_TO_BATCH_ND", [x, g.integers(block), g.integers(margin)], out)
    if g.draw.pick(True, False):
        g.emit("BATCH_TO_SPACE_ND", [spread, g.integers(block), g.integers(margin)], x.type)


@step(*INTEGERS)
def one_hot(g: MixedModel, x: Tensor) -> None:
    """ONE_HOT of whatever integers there are; of those out of range all are cold."""
    if len(x.type.shape) > 3:
        raise DoesNotFit
    depth, dtype = int(g.draw.rng.integers(1, 6)), g.draw.pick("int8", "int32", "bool", "float32")
    scalar = g.new_type(dtype, ())
    hot, cold = g.constant(scalar), g.constant(scalar)
    g.emit("ONE_HOT", [x, g.integers(depth), hot, cold], scalar.with_shape((*x.type.shape, depth)), axis=-1)


@step(*ALL)
def fill(g: MixedModel, x: Tensor) -> None:
    """FILL with a scalar there is."""
    scalars = [t for t in g.computed if t.type.shape == ()]
    if not scalars:
        raise DoesNotFit
    value = g.draw.pick(*scalars)
    g.emit("FILL", [g.integers(x.type.shape or (2,)), value], value.type.with_shape(x.type.shape or (2,)))


@step("int32", "int64", "float32")
def zeros_like(g: MixedModel, x: Tensor) -> None:
    """ZEROS_LIKE, which hides what it is made from, and a sum with it."""
    zeros = g.emit("ZEROS_LIKE", [x], x.type)
    g.emit("ADD", [x, zeros], x.type, fused_activation_function="NONE")


@step(*INTEGERS)
def wide_sum(g: MixedModel, x: Tensor) -> None:
    """ADD_N of int32."""
    if x.type.dtype == "int64":
        raise DoesNotFit
    g.emit("ADD_N", [x, *(g.alike(x) for _ in range(int(g.draw.pick(1, 2, 3))))], x.type)
