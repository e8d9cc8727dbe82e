"""Ahead of time: a plan as an object file for C programs, which carries no run-time.

It holds the kernels, the constants and the functions of :mod:`qimport.codegen.c_api`.
"""

from __future__ import annotations

from collections.abc import Sequence

from qimport.codegen import elf
from qimport.codegen.backend import ObjectWriter, Progress
from qimport.codegen.c_api import add_c_api
from qimport.codegen.host import host_target
from qimport.codegen.interface import Interface, TensorInfo, c_identifier
from qimport.codegen.program import generate
from qimport.codegen.target import Target
from qimport.errors import ArgumentError, CompilerBug, TargetError
from qimport.ir.graph import Numerics
from qimport.ir.types import ALIGNMENT
from qimport.lower.plan import Plan

ALLOWED_UNDEFINED = frozenset({"memcpy", "memmove", "memset"})
"""Symbols an object may leave to the linker: every C library has them, and LLVM emits calls to them."""


def interface_of(
    name: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    plan: Plan,
    target: Target,
    numerics: Numerics,
    prefix: str | None = None,
) -> Interface:
    """The C side of ``plan``.

    Files are called ``name`` made a C identifier; ``prefix`` begins every symbol and is the same by default.

    Raises:
        ArgumentError: ``prefix`` is no C identifier.
    """
    file = c_identifier(name)
    prefix = file if prefix is None else prefix
    if prefix != c_identifier(prefix):
        raise ArgumentError(f"the prefix {prefix!r} cannot begin C names; take {c_identifier(prefix)!r}")
    return Interface(
        name,
        file,
        prefix,
        tuple(inputs),
        tuple(outputs),
        plan.arena_bytes,
        ALIGNMENT,
        target,
        numerics,
        plan.state_bytes,
        plan.threads,
    )


def object_file(api: Interface, plan: Plan, progress: Progress | None = None) -> bytes:
    """The relocatable ELF file, position independent and checked for symbols it would need.

    Raises:
        TargetError: it cannot be made on this machine.
        CompilerBug: it needs symbols beyond :data:`ALLOWED_UNDEFINED`.
    """
    _check_assembler(api.target)
    with ObjectWriter(api.target, progress) as writer:
        program = generate(plan, api.target, api.prefix, ready=writer.add)
        add_c_api(api, program, plan.initial_state)
        content = writer.finish(str(program.module))
    machine = elf.read_machine(content)
    if machine != api.target.architecture.elf_machine:
        raise CompilerBug(f"the object for {api.target.name} is for ELF machine {machine}")
    if beyond := elf.undefined_symbols(content) - ALLOWED_UNDEFINED:
        raise CompilerBug(f"the object for {api.target.name} needs {', '.join(sorted(beyond))}")
    return content


def _check_assembler(target: Target) -> None:
    """Refuse what would end the process: LLVM assembles text only for the processor it runs on."""
    if target.needs_tile_permission and target.architecture is not host_target().architecture:
        raise TargetError(
            f"objects for {target.name} hold a system call and can be built only on a machine with Linux on "
            f"{target.architecture.name}; build them there, or take a target without amx-int8"
        )
