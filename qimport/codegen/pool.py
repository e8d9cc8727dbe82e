"""Threads that run parts of kernel calls: one pool of each size per process, shared by all models.

Workers are daemon threads of Python that enter native code (:mod:`qimport.codegen.pool_code`) and never
leave it: they hold no interpreter lock, keep no process from ending, and sleep while there is nothing to do.
So pools live as long as the process. One caller at a time has a pool; what others run meanwhile, they run
alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from typing import Any

from qimport.codegen.backend import engine_of, object_code
from qimport.codegen.host import host_target, processors
from qimport.codegen.pool_code import BLOCK, MOST_PARTS, ROOM, WORKERS, pool_bytes, pool_code, supports
from qimport.codegen.target import Target

_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class ThreadPool:
    """``threads`` threads, one of which is the caller: what ``parallel_for`` and ``pool`` are for an entry.

    ``address`` is the pool and ``parallel_for`` the function that takes it; NULL where this machine has no
    code for pools: then everything runs on the calling thread.
    """

    def __init__(self, threads: int) -> None:
        usable = sys.platform == "linux" and supports(host_target().architecture)
        self._workers = min(threads, processors()) - 1 if usable else 0
        self._parts = min(threads, MOST_PARTS)
        self._memory = ctypes.create_string_buffer(pool_bytes(self._parts) + BLOCK)
        _keep(self._memory)
        self.address = -(-ctypes.addressof(self._memory) // BLOCK) * BLOCK
        self._write(ROOM, self._parts)
        self._engine = _engine() if self._workers else None
        self.parallel_for = self._function("pool_parallel_for")
        self._started = self._workers == 0
        self._lock = threading.Lock()

    def _function(self, name: str) -> int:
        return int(self._engine.get_function_address(name)) if self._engine else 0

    def _write(self, offset: int, number: int) -> None:
        ctypes.c_uint32.from_address(self.address + offset).value = number

    def start(self) -> None:
        """Start the workers, unless they run in this process already."""
        if self._started:
            return
        with self._lock:
            if not self._started:
                work = _WORK(self._function("pool_work"))
                with contextlib.suppress(RuntimeError):  # no thread to be had: fewer are as right
                    for number in range(1, self._workers + 1):
                        arguments, name = (self.address, number), f"qimport-worker-{number}"
                        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
                        self._write(WORKERS, number)
                self._started = True

    def forget_workers(self) -> None:
        """In a new process after a fork, which has a copy of the memory and none of the workers."""
        ctypes.memset(self._memory, 0, len(self._memory))
        self._write(ROOM, self._parts)
        self._started = self._workers == 0
        self._lock = threading.Lock()


_POOLS: dict[int, ThreadPool] = {}


def shared_pool(threads: int) -> ThreadPool:
    """The pool of this size."""
    return _POOLS.get(threads) or _POOLS.setdefault(threads, ThreadPool(threads))


def _after_fork() -> None:
    for pool in _POOLS.values():
        pool.forget_workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _engine() -> Any:
    """The code of every pool."""
    target = Target("pool", host_target().architecture, frozenset())
    syscall = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value
    engine = engine_of(object_code(pool_code(target.architecture, int(syscall or 0)), target), target)
    _keep(engine)
    return engine


def _keep(thing: object) -> None:
    """Workers use it until the process ends, even when Python has already cleaned up."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
