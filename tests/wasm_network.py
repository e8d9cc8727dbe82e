"""Whole networks in WebAssembly: first with tensors at aligned addresses, then one byte further."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from network_program import NAME, build_objects, nbytes, read_array
from wasm_module import WasmModule

from qimport.artefact import TensorInfo
from qimport.compiler import Compilation
from qimport.ir.graph import Array

OUTPUT_FILLING = 0x5A


@dataclass(frozen=True)
class WasmNetwork:
    """A linked module and the tensors of its model."""

    module: WasmModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    has_state: bool

    def run(self, sequence: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Outputs of successive calls from the initial state, which must be the same in both placements."""
        first, second = (self._run(sequence, shift) for shift in range(2))
        for one, other in zip(first, second, strict=True):
            assert [a.tobytes() for a in one] == [a.tobytes() for a in other]
        return first

    def _run(self, sequence: Sequence[Sequence[Array]], shift: int) -> list[list[Array]]:
        instance = self.module.instance()
        arena = instance.take(instance.call(f"{NAME}_arena_size") or 0)
        if self.has_state:
            assert instance.call(f"{NAME}_reset", arena) == 0
        results = []
        for arrays in sequence:
            inputs = [instance.take_filled(array.tobytes(), shift) for array in arrays]
            outputs = [
                instance.take_filled(bytes([OUTPUT_FILLING]) * nbytes(info), shift) for info in self.outputs
            ]
            ins, outs = (instance.take_pointers(places) for places in (inputs, outputs))
            assert instance.call(f"{NAME}_run", ins, outs, arena) == 0
            for place, array in zip(inputs, arrays, strict=True):
                assert instance.read(place, array.nbytes) == array.tobytes(), "an input was overwritten"
            found = zip(outputs, self.outputs, strict=True)
            results.append(
                [read_array(io.BytesIO(instance.read(place, nbytes(info))), info) for place, info in found]
            )
        instance.check_margins()
        return results


def link_network(stages: Compilation, folder: Path) -> WasmNetwork:
    """The module of a model."""
    names = ["run", "arena_size", *(["reset"] if stages.plan.state_bytes else [])]
    objects = build_objects(stages, folder)
    module = WasmModule(stages.options.target, objects, [f"{NAME}_{name}" for name in names])
    return WasmNetwork(module, stages.inputs, stages.outputs, bool(stages.plan.state_bytes))
