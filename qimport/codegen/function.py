"""A thin wrapper over llvmlite's builder: one kernel function, counted loops, unaligned loads and stores.

No alignment is assumed for operands and the result, and no byte outside a tensor is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from qimport.codegen.target import Target
from qimport.ir.types import DTYPES

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()

ELEMENTS: dict[str, Any] = {
    "bool": I8,
    "int8": I8,
    "uint8": I8,
    "int16": I16,
    "int32": I32,
    "uint32": I32,
    "int64": I64,
    "float16": ir.HalfType(),
    "float32": F32,
    "float64": F64,
    "complex64": I64,
}
"""LLVM type of every element type; signedness lives in the instructions. complex64 is only ever moved."""

Index = Any
"""A Python int or an i64 :class:`llvmlite.ir.Value`."""

Carried = Sequence[Any]


def word_type(target: Target) -> Any:
    """The integer as wide as an address: size_t."""
    return ir.IntType(8 * target.pointer_bytes)


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return int(DTYPES[dtype][0][1:]) // 8 or 1


def index(value: Index) -> Any:
    """An i64 value from an i64 value or a Python int."""
    return ir.Constant(I64, value) if isinstance(value, int) else value


def _first_lanes(lanes: int, valid: int) -> Any:
    """A mask."""
    return ir.Constant(
        ir.VectorType(I1, lanes), [ir.Constant(I1, int(lane < valid)) for lane in range(lanes)]
    )


def _of_integers(type_: Any) -> Any:
    """The vector type with integers as wide as the elements of another one."""
    width = {F32: 32, F64: 64, ELEMENTS["float16"]: 16}.get(type_.element) or type_.element.width
    return ir.VectorType(ir.IntType(width), type_.count)


def forbid_vectors(function: Any, target: Target) -> None:
    """Let LLVM use no vector registers in a function."""
    if function.blocks:
        features = ",".join((target.feature_string, *target.architecture.without_vectors))
        # llvmlite knows attributes by name only; it writes what is in its set as it is.
        set.add(function.attributes, f'"target-features"="{features}"')


class KernelFunction:
    """``void name(ptr operand..., ptr tables, ptr result)`` under construction.

    ``operands``, ``tables`` and ``result`` are the arguments, ``b`` the llvmlite builder at the current end.
    With ``in_place`` the result may be the memory of an operand. :meth:`private` functions have ``extra``
    arguments of the given types.
    """

    def __init__(
        self,
        module: Any,
        name: str,
        operands: int,
        target: Target,
        in_place: bool = False,
        extra: Sequence[Any] = (),
    ) -> None:
        signature = ir.FunctionType(ir.VoidType(), [*[PTR] * (operands + 2), *extra])
        self.target = target
        self.module = module
        self.in_place = in_place
        self.function = ir.Function(module, signature, name)
        self.function.attributes.add("nounwind")
        *self.operands, self.tables, self.result = self.function.args[: operands + 2]
        self.extra = self.function.args[operands + 2 :]
        pointers = [argument for argument in self.function.args if argument.type == PTR]
        for argument in pointers:
            argument.add_attribute("captures(none)")
        for argument in (self.tables,) if in_place else pointers:
            argument.add_attribute("noalias")
        self.tables.attributes.align = 64
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))

    def finish(self) -> Any:
        """Return from the function and hand it out."""
        self.b.ret_void()
        return self.function

    def private(self, suffix: str, extra: Sequence[Any]) -> KernelFunction:
        """A function for :meth:`call`, which stays out of the code around its calls; also to be finished."""
        name, operands = f"{self.function.name}_{suffix}", len(self.operands)
        inner = KernelFunction(self.module, name, operands, self.target, self.in_place, extra)
        inner.function.linkage = "internal"
        inner.function.attributes.add("noinline")
        return inner

    def call(self, function: Any, extra: Sequence[Any]) -> None:
        """Call what a :meth:`private` one became: on the same operands, tables and result, and ``extra``."""
        self.b.call(function, [*self.operands, self.tables, self.result, *extra])

    # Index arithmetic folds Python ints, so that static shapes give static code.

    def add(self, a: Index, b: Index) -> Index:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        if isinstance(b, int) and b == 0:
            return a
        return self.b.add(index(a), index(b))

    def mul(self, a: Index, factor: int) -> Index:
        """a * factor."""
        if isinstance(a, int):
            return a * factor
        if factor in (0, 1):
            return a if factor else 0
        return self.b.mul(a, index(factor))

    def divide(self, a: Index, by: int) -> tuple[Index, Index]:
        """Quotient and remainder of ``a`` >= 0."""
        if by == 1:
            return a, 0
        if isinstance(a, int):
            return divmod(a, by)
        return self.b.udiv(a, index(by)), self.b.urem(a, index(by))

    def at(self, pointer: Any, offset: Index) -> Any:
        """The address ``offset`` bytes after ``pointer``."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.b.gep(pointer, [index(offset)], inbounds=True, source_etype=I8)

    def element(self, pointer: Any, position: Index, dtype: str) -> Any:
        """The address of element ``position`` of a tensor of ``dtype``."""
        return self.at(pointer, self.mul(position, itemsize(dtype)))

    def load(self, pointer: Any, type_: Any, align: int = 1) -> Any:
        """A load of any type."""
        return self.b.load(pointer, align=align, typ=type_)

    def store(self, value: Any, pointer: Any, align: int = 1) -> None:
        """A store of any type."""
        self.b.store(value, pointer, align=align)

    def load_masked(self, pointer: Any, type_: Any, valid: int) -> Any:
        """The first ``valid`` lanes of a vector, the others zero; for targets with masks."""
        integers = _of_integers(type_)
        zero = ir.Constant(integers, [ir.Constant(integers.element, 0)] * integers.count)
        name = f"llvm.masked.load.v{integers.count}i{integers.element.width}.p0"
        loaded = self.intrinsic(name, integers, [pointer, _first_lanes(integers.count, valid), zero])
        return self.b.bitcast(loaded, type_)

    def store_masked(self, value: Any, pointer: Any, valid: int) -> None:
        """Store the first ``valid`` lanes of a vector; for targets with masks.

        A single lane is stored as a scalar: LLVM 22 forgets a truncation in front of such a mask, and then
        stores the bytes that had been cut off.
        """
        if valid == 1:
            self.store(self.b.extract_element(value, ir.Constant(I32, 0)), pointer)
            return
        type_ = _of_integers(value.type)
        name = f"llvm.masked.store.v{type_.count}i{type_.element.width}.p0"
        stored = self.b.bitcast(value, type_)
        self.intrinsic(name, ir.VoidType(), [stored, pointer, _first_lanes(type_.count, valid)])

    def intrinsic(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """Call the LLVM intrinsic of this full name, declaring it on first use."""
        declared = self.module.globals.get(name)
        if declared is None:
            signature = ir.FunctionType(result, [argument.type for argument in arguments])
            declared = ir.Function(self.module, signature, name)
        return self.b.call(declared, arguments)

    def copy(self, destination: Any, source: Any, length: int) -> None:
        """``length`` bytes from one tensor to another."""
        arguments = [destination, source, index(length), ir.Constant(I1, 0)]
        self.intrinsic("llvm.memcpy.p0.p0.i64", ir.VoidType(), arguments)

    def fill(self, destination: Any, byte: int, length: int) -> None:
        """``length`` equal bytes."""
        arguments = [destination, ir.Constant(I8, byte), index(length), ir.Constant(I1, 0)]
        self.intrinsic("llvm.memset.p0.i64", ir.VoidType(), arguments)

    def loop(
        self,
        start: Index,
        stop: Index,
        step: int,
        body: Callable[..., Carried | None],
        carried: Carried = (),
    ) -> Carried:
        """``for i in range(start, stop, step): carried = body(i, *carried)``; gives the last ``carried``.

        Empty and one-step ranges of Python ints cost no branch. Bounds that are values must hold at least one
        step: window spans do, and a test in front of every pixel would cost more than the loop.
        """
        if isinstance(start, int) and isinstance(stop, int):
            count = len(range(start, stop, step))
            if count == 0:
                return carried
            if count == 1:
                return body(start, *carried) or ()
        first, end = self._word(start), self._word(stop)
        before = self.b.block
        block = self.function.append_basic_block("loop")
        self.b.branch(block)
        self.b.position_at_end(block)
        counter = self.b.phi(first.type)
        counter.add_incoming(first, before)
        phis = [self.b.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, before)
        results = body(self._widened(counter), *phis) or ()
        following = self.b.add(counter, first.type(step))
        counter.add_incoming(following, self.b.block)
        for phi, value in zip(phis, results, strict=True):
            phi.add_incoming(value, self.b.block)
        after = self.function.append_basic_block("after")
        self.b.cbranch(self.b.icmp_signed("<", following, end), block, after)
        self.b.position_at_end(after)
        return results

    def _word(self, value: Index) -> Any:
        """An index as wide as an address: a counter of 64 bits takes two registers of a 32-bit processor."""
        type_ = word_type(self.target)
        return index(value) if type_ == I64 else self.b.trunc(index(value), type_)

    def _widened(self, word: Any) -> Any:
        """What :meth:`_word` made narrow."""
        return word if word.type == I64 else self.b.sext(word, I64)

    def blocks(self, count: int, lanes: int, overlap: bool, body: Callable[[Index, int], None]) -> None:
        """Cover ``range(count)`` with ``body(start, width)``, widths being powers of two up to ``lanes``.

        With ``overlap`` a last block of full width overlaps its predecessor, so ``body`` must be idempotent
        and starts may be odd. Without, blocks are disjoint: the rest goes in ever smaller ones, and every
        block starts at a multiple of its own width.
        """
        if overlap and count:
            width = min(lanes, 1 << (count.bit_length() - 1))
            self.overlapping(count, width, lambda start: body(start, width))
            return
        whole = count - count % lanes
        self.loop(0, whole, lanes, lambda start: body(start, lanes))
        while whole < count:
            width = 1 << ((count - whole).bit_length() - 1)
            body(whole, width)
            whole += width

    def overlapping(self, count: int, width: int, body: Callable[[Index], None]) -> None:
        """Cover ``range(count)`` with blocks of ``width`` <= ``count``, the last of which may overlap."""
        last = count - width

        def step(start: Index) -> None:
            if isinstance(start, int):
                start = min(start, last)
            elif count % width:
                start = self.intrinsic("llvm.smin.i64", I64, [start, index(last)])
            body(start)

        self.loop(0, count, width, step)
