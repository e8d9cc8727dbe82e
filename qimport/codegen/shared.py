"""Shared libraries that ``qimport build`` made, called in this process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Collection
from typing import Any

from qimport.codegen.pool import ThreadPool, shared_pool
from qimport.errors import TargetError


class LibraryCode:
    """The functions ``PREFIX_...`` of a library; has the methods by which sessions call any loaded code.

    Whoever may call must keep this object: the library is unloaded with it.
    """

    def __init__(
        self, library: Any, prefix: str, functions: Collection[str], pool: ThreadPool | None
    ) -> None:
        self._run = getattr(library, f"{prefix}_run" if pool is None else f"{prefix}_run_parallel")
        self._reset = getattr(library, f"{prefix}_reset") if f"{prefix}_reset" in functions else None
        self._pool = pool

    def prepare(self, arena: int) -> None:
        """Write what the code expects in a new arena.

        Raises:
            TargetError: the library refuses.
        """
        if self._reset is not None:
            _expect_success(self._reset(ctypes.c_void_p(arena)))

    def bound(self, inputs: Any, outputs: Any, arena: int, _constants: int) -> Callable[[], None]:
        """As :meth:`qimport.codegen.jit.LoadedCode.bound`; the library holds its constants."""
        addresses = [ctypes.addressof(inputs), ctypes.addressof(outputs), arena]
        pool = self._pool
        if pool is not None:
            addresses += [pool.parallel_for, pool.address]
        call = functools.partial(self._run, *map(ctypes.c_void_p, addresses))

        def run() -> None:
            if pool is not None:
                pool.start()
            _expect_success(call())

        return run


def load_library(
    content: bytes, prefix: str, functions: Collection[str], threads: int, source: str
) -> LibraryCode:
    """Load the content of a library that was checked; the file it came from may change or go away.

    The system knows loaded libraries by path and would take the old one for a file that was built again.
    So it gets a copy in memory, whose path no other has while it is loaded.

    Raises:
        TargetError: the system does not load it.
    """
    try:
        descriptor = os.memfd_create("qimport")
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, descriptor)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
            undo.pop_all()
    except (OSError, AttributeError) as error:
        raise TargetError(f"{source} cannot be loaded on this system: {error}") from error
    code = LibraryCode(library, prefix, functions, shared_pool(threads) if threads > 1 else None)
    weakref.finalize(code, _unload, library._handle, descriptor).atexit = False
    return code


def _unload(handle: int, descriptor: int) -> None:
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle))
    os.close(descriptor)


def _expect_success(result: int) -> None:
    """What is passed is right by construction, so that only the system can refuse: AMX tiles."""
    if result:
        raise TargetError(f"the library refuses to run here (its result is {result})")
