"""Locks that a forked process must find open.

A fork copies locks as they are but only the thread that forks, so what another thread held would stay
closed for ever. The thread that forks waits until code is loaded and LLVM is idle, and opens both locks
afterwards in both processes.
"""

from __future__ import annotations

import os
import threading

import llvmlite.binding as llvm

LOADING = threading.RLock()
"""Held while code is loaded. Whoever holds it may call LLVM, never the other way round."""

_LLVM = llvm.ffi.lib._lock


def _close() -> None:
    LOADING.acquire()
    _LLVM.__enter__()


def _open() -> None:
    _LLVM.__exit__()
    LOADING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close, after_in_parent=_open, after_in_child=_open)
