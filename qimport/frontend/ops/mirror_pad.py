"""MIRROR_PAD."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.mirror_pad import MirrorPad


@importer("MIRROR_PAD", versions=range(1, 4))
def mirror_pad(context: OperatorContext) -> None:
    """Surround with the operand's own elements."""
    context.operands(2)
    x, counts = context.input(0), context.integers(1, "padding", ("int32", "int64"))
    checks.moves(context, x, context.out)
    checks.equal_quantization(context, x)
    shape, edge = x.type.shape, context.option("mode") == "SYMMETRIC"
    if len(counts) != 2 * len(shape):
        context.misfit(f"the padding has {len(counts)} numbers for shape {shape}", x)
    before, after = counts[::2], counts[1::2]
    for size, first, last in zip(shape, before, after, strict=True):
        if not 0 <= min(first, last) <= max(first, last) <= size - (not edge):
            context.misfit(f"{first} and {last} elements do not mirror in a dimension of {size}", x)
    padded = [sum(sizes) for sizes in zip(shape, before, after, strict=True)]
    context.emit(MirrorPad(before=before, after=after, edge=edge), (x,), padded)
