"""SCATTER_ND and SPARSE_TO_DENSE: elements put where indices say."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.gather import coordinates
from qimport.qnn.scatter import ScatterNd, SparseToDense


@importer("SCATTER_ND", versions=range(1, 2))
def scatter_nd(context: OperatorContext) -> None:
    """Updates added to zeros; the shape is constant."""
    context.operands(3)
    indices, updates = context.input(0), context.input(1)
    checks.moves(context, updates, context.out)
    checks.one_of(context, indices, ("int32",))
    shape = context.integers(2, "shape")
    depth = coordinates(context, indices, len(shape))
    wanted = (*indices.type.shape[:-1], *shape[depth:])
    if updates.type.shape != wanted:
        context.misfit(f"updates have shape {updates.type.shape}; expected {wanted}", updates)
    context.emit(ScatterNd(), (indices, updates), shape)


@importer("SPARSE_TO_DENSE", versions=range(1, 4))
def sparse_to_dense(context: OperatorContext) -> None:
    """Values stored into a tensor of one default; the shape is constant."""
    context.operands(4)
    indices, values, default = context.input(0), context.input(2), context.input(3)
    checks.moves(context, values, default, context.out)
    checks.one_of(context, indices, ("int32", "int64"))
    shape = context.integers(1, "shape", ("int32", "int64"))
    if len(indices.type.shape) > 2:
        context.misfit(f"indices have shape {indices.type.shape}; expected at most 2 dimensions", indices)
    places, depth = SparseToDense.coordinates(indices.type.shape)
    if depth != len(shape):
        context.misfit(f"indices have {depth} coordinates for shape {shape}", indices)
    if values.type.size not in (1, places) or default.type.size != 1:
        context.misfit(f"there are {values.type.size} values for {places} places", values)
    context.emit(SparseToDense(), (indices, values, default), shape)
