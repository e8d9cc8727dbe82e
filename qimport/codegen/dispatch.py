"""How generated code hands out tasks: through the caller's ``parallel_for``, or one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from qimport.codegen.function import I64, PTR

TASK = ir.FunctionType(ir.VoidType(), [PTR, I64])
"""``void task(ptr context, i64 index)``."""

PARALLEL_FOR = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, I64])
"""``void parallel_for(ptr pool, ptr task, ptr context, i64 count)``."""


@dataclass(frozen=True)
class _Callee:
    """A pointer as llvmlite wants what is called: with the type of the function behind it."""

    pointer: Any
    function_type: Any

    @property
    def type(self) -> Any:
        """The pointer's."""
        return self.pointer.type

    def get_reference(self) -> str:
        """The pointer's."""
        return str(self.pointer.get_reference())


def dispatch_function(module: Any, name: str) -> Any:
    """``void name(ptr parallel_for, ptr pool, ptr task, ptr context, i64 count)``, added to ``module``.

    Runs ``task(context, i)`` for every i < count: with ``parallel_for``, or in order where that is NULL.
    """
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, *PARALLEL_FOR.args]), name)
    function.linkage = "internal"
    for attribute in ("nounwind", "noinline"):
        function.attributes.add(attribute)
    parallel_for, pool, task, context, count = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    with b.if_then(b.icmp_unsigned("!=", parallel_for, ir.Constant(PTR, None))):
        b.call(_Callee(parallel_for, PARALLEL_FOR), [pool, task, context, count])
        b.ret_void()
    start, loop = b.block, function.append_basic_block("loop")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    b.call(_Callee(task, TASK), [context, index])
    following = b.add(index, I64(1))
    index.add_incoming(I64(0), start)
    index.add_incoming(following, loop)
    end = function.append_basic_block("end")
    b.cbranch(b.icmp_unsigned("<", following, count), loop, end)
    b.position_at_end(end)
    b.ret_void()
    return function
