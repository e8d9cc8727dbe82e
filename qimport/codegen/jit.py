"""Object code made callable in this process."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from qimport.codegen.backend import target_machine
from qimport.codegen.host import request_tile_permission, why_not_runnable
from qimport.codegen.target import Target
from qimport.errors import CompilerBug, TargetError

_ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
"""``void entry(inputs, outputs, arena, constants)``; a call releases the interpreter lock."""

_TIMED_ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
"""``void entry(inputs, outputs, arena, constants, times)``."""


class LoadedCode:
    """The entry function of a program, and the engine in whose memory it lives.

    Whoever may call must keep this object: the memory goes with it, and with nothing else.
    """

    def __init__(self, engine: Any, entry: str) -> None:
        self._engine = engine
        self._address = engine.get_function_address(entry)
        self._function = _ENTRY(self._address)

    def __call__(self, inputs: Any, outputs: Any, arena: int, constants: int) -> None:
        """Run. ``inputs`` and ``outputs`` are ctypes arrays of addresses; the others are 64-byte aligned."""
        self._function(ctypes.addressof(inputs), ctypes.addressof(outputs), arena, constants)

    def bound(self, inputs: Any, outputs: Any, arena: int, constants: int) -> Callable[[], None]:
        """The same as a function without arguments, whose calls convert nothing.

        Whoever keeps it must keep the memory, too; what the arrays of addresses hold may change.
        """
        addresses = (ctypes.addressof(inputs), ctypes.addressof(outputs), arena, constants)
        return functools.partial(self._function, *map(ctypes.c_void_p, addresses))

    def timed(self, inputs: Any, outputs: Any, arena: int, constants: int, times: Any) -> None:
        """Run the entry of a timed program; ``times`` is a ctypes array of int64, one more than calls."""
        run = _TIMED_ENTRY(self._address)
        run(ctypes.addressof(inputs), ctypes.addressof(outputs), arena, constants, ctypes.addressof(times))


def load_object(object_code: bytes, entry: str, target: Target) -> LoadedCode:
    """Load an ELF object that :func:`qimport.codegen.backend.object_code` made.

    Raises:
        TargetError: this machine cannot run code for ``target``, or the system refuses AMX.
        CompilerBug: the object does not define ``entry``.
    """
    reason = why_not_runnable(target)
    if reason is not None:
        raise TargetError(f"code for {target.name} cannot run here: {reason}")
    if target.needs_tile_permission and not request_tile_permission():
        raise TargetError(f"code for {target.name} cannot run here: the system does not grant AMX tiles")
    machine = target_machine(target)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    if not engine.get_function_address(entry):
        raise CompilerBug(f"the object code does not define {entry}")
    return LoadedCode(engine, entry)
