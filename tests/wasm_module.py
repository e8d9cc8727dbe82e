"""WebAssembly in wasmtime: objects linked to a module of their own, and memory between known bytes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qimport.codegen.target import Target
from qimport.ir.types import ALIGNMENT
from qimport.toolchain import find_linker, missing_compiler

MARGIN, FILLING = 64, 0x3C

PAGE = 65536


def skip_without_wasm(target: Target) -> None:
    """Skip the calling test where run-time or linker are missing."""
    if importlib.util.find_spec("wasmtime") is None:
        pytest.skip("wasmtime is not installed")
    if find_linker(target) is None:
        pytest.skip(missing_compiler(target))


class WasmModule:
    """An object linked to a module that exports these functions and its memory, compiled for this machine."""

    def __init__(self, target: Target, objects: Path, functions: Sequence[str]) -> None:
        import wasmtime

        linker = find_linker(target)
        assert linker is not None, "call skip_without_wasm first"
        options = [*linker.linker_option("--no-entry")]
        for name in ("__heap_base", *functions):
            options += linker.linker_option(f"--export={name}")
        linked = objects.with_suffix(".wasm")
        linker.run(*(["-nostdlib"] if linker.is_driver else []), *options, "-o", linked, objects)
        self._engine = wasmtime.Engine()
        self._module = wasmtime.Module.from_file(self._engine, str(linked))

    def instance(self) -> WasmInstance:
        """The module with new memory."""
        import wasmtime

        store = wasmtime.Store(self._engine)
        return WasmInstance(store, wasmtime.Instance(store, self._module, []).exports(store))


class WasmInstance:
    """A running module whose memory is handed out from the end of its own data on."""

    def __init__(self, store: Any, exports: Any) -> None:
        self._store, self._exports = store, exports
        self._memory = exports["memory"]
        self._end = int(exports["__heap_base"].value(store))
        self._margins: list[int] = []

    def call(self, name: str, *arguments: int) -> int | None:
        """The result of a function."""
        result: int | None = self._exports[name](self._store, *arguments)
        return result

    def take(self, size: int, shift: int = 0) -> int:
        """The address of new memory between margins, ``shift`` bytes behind an aligned one."""
        place = -(-(self._end + MARGIN) // ALIGNMENT) * ALIGNMENT + shift
        self._end = place + size + MARGIN
        missing = self._end - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, -(-missing // PAGE))
        for margin in (place - MARGIN, place + size):
            self.write(margin, bytes([FILLING]) * MARGIN)
            self._margins.append(margin)
        return place

    def take_filled(self, content: bytes, shift: int = 0) -> int:
        """The address of new memory with this content."""
        place = self.take(len(content), shift)
        self.write(place, content)
        return place

    def take_pointers(self, places: Sequence[int]) -> int:
        """The address of an array of addresses."""
        return self.take_filled(np.array(places, "<u4").tobytes())

    def write(self, place: int, content: bytes) -> None:
        """Copy into the memory."""
        self._memory.write(self._store, content, place)

    def read(self, place: int, size: int) -> bytes:
        """Copy from the memory."""
        return bytes(self._memory.read(self._store, place, place + size))

    def check_margins(self) -> None:
        """Fail if something was written beside the memory that was taken."""
        for margin in self._margins:
            assert self.read(margin, MARGIN) == bytes([FILLING]) * MARGIN
