"""Sliding windows: explicit padding and result size from SAME or VALID."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value

# What the interpreter's kernels accept; beyond that there are no bytes to equal.
MAX_STEP = 2**15 - 1
MAX_REACH = 2**31 - 1


@dataclass(frozen=True)
class Window:
    """A window over height and width.

    ``padding`` is ((top, bottom), (left, right)), ``extent`` the result's height and width.
    """

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    extent: tuple[int, int]


def read_window(
    context: OperatorContext, x: Value, size: tuple[int, int], *, dilated: bool = False
) -> Window:
    """Return the window that the options for padding and stride put over NHWC ``x``.

    ``dilated``: there are options ``dilation_h_factor`` and ``dilation_w_factor`` too.
    """
    dilation = (1, 1)
    if dilated:
        dilation = (context.option("dilation_h_factor"), context.option("dilation_w_factor"))
    stride = (context.option("stride_h"), context.option("stride_w"))
    if min(*stride, *dilation, *size) < 1:
        context.malformed(
            f"window {size}, stride {stride}, dilation {dilation}: expected sizes of at least 1"
        )
    if max(*stride, *dilation) > MAX_STEP:
        context.unsupported(f"stride {stride}, dilation {dilation}: expected at most {MAX_STEP}", x)
    same = context.option("padding") == "SAME"
    _, height, width, _ = x.type.shape
    rows = along(height, size[0], stride[0], dilation[0], same)
    columns = along(width, size[1], stride[1], dilation[1], same)
    extent = (rows.count, columns.count)
    reach = tuple(
        (count - 1) * step + (taps - 1) * apart + 1
        for count, step, taps, apart in zip(extent, stride, size, dilation, strict=True)
    )
    if max(reach) > MAX_REACH:
        context.unsupported(f"windows of {size} reach over {reach} elements; expected at most {MAX_REACH}", x)
    if min(extent) < 1:
        context.misfit(f"a window of {size} with dilation {dilation} does not fit into {height} x {width}", x)
    return Window(stride, dilation, (rows.padding, columns.padding), extent)


@dataclass(frozen=True)
class Along:
    """One dimension of a window: how many results, and padding before and after."""

    count: int
    padding: tuple[int, int]


def along(length: int, size: int, stride: int, dilation: int, same: bool) -> Along:
    """Return result size and padding before and after in one dimension; SAME puts the odd element after."""
    reach = (size - 1) * dilation + 1
    if not same:
        return Along((length + stride - reach) // stride, (0, 0))
    count = -(-length // stride)
    total = max(0, (count - 1) * stride + reach - length)
    return Along(count, (total // 2, total - total // 2))
