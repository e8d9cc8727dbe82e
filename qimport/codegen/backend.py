"""LLVM at work: optimization, object code, assembly. The only place that makes target machines."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from qimport.codegen.target import Target
from qimport.errors import CompilerBug

LLVM_VERSION = f"LLVM {'.'.join(map(str, llvm.llvm_version_info))}, llvmlite {llvmlite.__version__}"


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def target_machine(target: Target) -> Any:
    """A target machine for position-independent code; CPU and features come from validated tables only."""
    _initialize()
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu, features=target.feature_string, opt=2, reloc="pic", codemodel="small"
    )


def optimized(text: str, target: Target) -> tuple[Any, Any]:
    """The parsed and optimized module, and its target machine.

    Raises:
        CompilerBug: when LLVM rejects the text; it is ours.
    """
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = target.triple, str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompilerBug(f"LLVM rejects the generated code: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # kernels are vectors already
    options.slp_vectorization = False
    options.loop_unrolling = False  # tiles are unrolled as far as registers go
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def object_code(text: str, target: Target) -> bytes:
    """ELF object, position independent."""
    module, machine = optimized(text, target)
    return bytes(machine.emit_object(module))


def assembly(text: str, target: Target) -> str:
    """Assembly text."""
    module, machine = optimized(text, target)
    return str(machine.emit_assembly(module))


def engine_of(object_code: bytes, target: Target) -> Any:
    """An execution engine that owns the memory into which an ELF object of ``target`` is loaded."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(target))
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    return engine
