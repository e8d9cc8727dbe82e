"""Object code made callable in this process."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from qimport.codegen.backend import engine_of
from qimport.codegen.host import request_tile_permission, why_not_runnable
from qimport.codegen.pool import ThreadPool, shared_pool
from qimport.codegen.target import Target
from qimport.errors import CompilerBug, TargetError

Addresses = tuple[Any, ...]


class LoadedCode:
    """The entry function of a program, and the engine in whose memory it lives.

    Whoever may call must keep this object: the memory goes with it, and with nothing else. Calls release the
    interpreter lock. With a ``pool`` the entry is one for several threads.
    """

    def __init__(self, engine: Any, entry: str, pool: ThreadPool | None = None) -> None:
        self._engine = engine
        self._address = engine.get_function_address(entry)
        self._pool = pool

    def prepare(self, _arena: int) -> None:
        """Write what the code expects in a new arena: nothing beside the initial state."""

    def __call__(self, inputs: Any, outputs: Any, arena: int, constants: int) -> None:
        """Run. ``inputs`` and ``outputs`` are ctypes arrays of addresses; the others are 64-byte aligned."""
        self.bound(inputs, outputs, arena, constants)()

    def bound(self, inputs: Any, outputs: Any, arena: int, constants: int) -> Callable[[], None]:
        """The same as a function without arguments, whose calls convert nothing.

        Whoever keeps it must keep the memory, too; what the arrays of addresses hold may change.
        """
        return self._bind((ctypes.addressof(inputs), ctypes.addressof(outputs), arena, constants))

    def timed(self, inputs: Any, outputs: Any, arena: int, constants: int, times: Any) -> None:
        """Run the entry of a timed program; ``times`` is a ctypes array of int64, one more than calls."""
        addresses = (ctypes.addressof(inputs), ctypes.addressof(outputs), arena, constants)
        self._bind(addresses, ctypes.addressof(times))()

    def _bind(self, addresses: Addresses, *last: int) -> Callable[[], None]:
        """Calls of the entry with ``addresses``, what it needs to know of the pool, and ``last``."""
        pool = self._pool
        if pool is not None:
            addresses = (*addresses, pool.parallel_for, pool.address)
        arguments = [ctypes.c_void_p(address) for address in (*addresses, *last)]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(self._address)
        call = functools.partial(function, *arguments)
        if pool is None:
            return call

        def run() -> None:
            pool.start()
            call()

        return run


def load_object(object_code: bytes, entry: str, target: Target, threads: int = 1) -> LoadedCode:
    """Load an ELF object that :func:`qimport.codegen.backend.object_code` made.

    ``threads`` are those of the plan: with more than one the entry is called with a pool of as many.

    Raises:
        TargetError: this machine cannot run code for ``target``, or the system refuses AMX.
        CompilerBug: the object does not define ``entry``.
    """
    reason = why_not_runnable(target)
    if reason is not None:
        raise TargetError(f"code for {target.name} cannot run here: {reason}")
    if target.needs_tile_permission and not request_tile_permission():
        raise TargetError(f"code for {target.name} cannot run here: the system does not grant AMX tiles")
    engine = engine_of(object_code, target)
    if not engine.get_function_address(entry):
        raise CompilerBug(f"the object code does not define {entry}")
    return LoadedCode(engine, entry, shared_pool(threads) if threads > 1 else None)
