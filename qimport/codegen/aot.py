"""Ahead of time: a plan as an object file for C programs, which carries no run-time.

It holds the kernels, the constants and the functions of :mod:`qimport.codegen.c_api`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qimport.codegen import elf, wasm
from qimport.codegen.backend import ObjectWriter, Progress, object_code
from qimport.codegen.c_api import add_c_api
from qimport.codegen.host import host_target
from qimport.codegen.interface import Interface, TensorInfo, Weights, c_identifier
from qimport.codegen.levels import (
    dispatching_module,
    interface_of_level,
    system_functions,
    takes_assembler,
    with_levels,
)
from qimport.codegen.program import Program, Ready, generate
from qimport.codegen.target import Target
from qimport.errors import ArgumentError, CompilerBug, TargetError
from qimport.ir.types import ALIGNMENT
from qimport.lower.plan import Plan
from qimport.numerics import Numerics


def interface_of(
    name: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    plan: Plan,
    target: Target,
    numerics: Numerics,
    prefix: str | None = None,
    digest: str = "",
    levels: tuple[Target, ...] = (),
) -> Interface:
    """The C side of ``plan``.

    Files are called ``name`` made a C identifier; ``prefix`` begins every symbol and is the same by default;
    ``digest`` is the SHA-256 of the model; ``levels`` are those of :func:`~qimport.codegen.levels.levels_of`.

    Raises:
        ArgumentError: ``prefix`` is no C identifier.
    """
    file = c_identifier(name)
    prefix = file if prefix is None else prefix
    if prefix != c_identifier(prefix):
        raise ArgumentError(f"the prefix {prefix!r} cannot begin C names; take {c_identifier(prefix)!r}")
    api = Interface(
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
        digest=digest,
    )
    return with_levels(api, levels) if levels else api


@dataclass(frozen=True)
class Translation:
    """A plan as code for C programs.

    ``program`` includes the functions of C linkage; where weights are separate, ``program.constants`` are the
    content of their file, and ``api`` knows it. ``object_code`` is None where it was not asked for. Where
    ``levels`` are not empty, ``program`` only passes calls on to them.
    """

    api: Interface
    program: Program
    object_code: bytes | None
    levels: tuple[Translation, ...] = ()


def translate(
    api: Interface,
    plan: Plan,
    separate: bool = False,
    compiled: bool = True,
    progress: Progress | None = None,
) -> Translation:
    """Generate the code of a plan and, if ``compiled``, the object; ``separate``: without the constants.

    Raises:
        TargetError: it cannot be made on this machine.
        CompilerBug: the object needs symbols beyond :attr:`Target.allowed_undefined`.
    """
    if compiled:
        _check_assembler(api)
    if api.levels:
        return _translate_levels(api, plan, compiled, progress)
    if not compiled:
        return Translation(*_generate(api, plan, separate, lambda _: None), None)
    with ObjectWriter(api.target, progress) as writer:
        api, program = _generate(api, plan, separate, writer.add)
        content = writer.finish(str(program.module))
    _check_object(content, api)
    return Translation(api, program, content)


def _translate_levels(api: Interface, plan: Plan, compiled: bool, progress: Progress | None) -> Translation:
    """The code of every level, one after the other, and what chooses among them."""
    parts = []
    for number, level in enumerate(api.levels):
        own = interface_of_level(api, level, plan.arena_bytes)
        parts.append(translate(own, plan, False, compiled, _part_of(progress, number, len(api.levels))))
    module = dispatching_module(api)
    program = Program((), module, f"{api.prefix}_run", b"", (), 0)
    content = None
    if compiled:
        objects = [part.object_code for part in parts if part.object_code is not None]
        content = elf.link([*objects, object_code(str(module), api.target)], api.functions)
        _check_object(content, api)
    return Translation(api, program, content, tuple(parts))


def _part_of(progress: Progress | None, number: int, count: int) -> Progress | None:
    """How far all is, told by part ``number`` of ``count``."""
    if progress is None:
        return None
    return lambda text, done: progress(text, (number + done) / count)


def _generate(api: Interface, plan: Plan, separate: bool, ready: Ready) -> tuple[Interface, Program]:
    """The program with its C API, and that API with what only the program tells."""
    program = generate(plan, api.target, api.prefix, ready=ready)
    if separate:
        program = replace(program, constants=program.constants or bytes(ALIGNMENT))
        api = replace(api, weights=Weights.of(program.constants))
    add_c_api(api, program, plan.initial_state)
    return api, program


def _check_object(content: bytes, api: Interface) -> None:
    target = api.target
    expected = target.architecture.elf_machine
    if expected is None:
        undefined = wasm.undefined_symbols(content)
    else:
        undefined = elf.undefined_symbols(content)
        if (machine := elf.read_machine(content)) != expected:
            raise CompilerBug(f"the object for {target.name} is for ELF machine {machine}")
    if beyond := undefined - target.allowed_undefined - system_functions(api.levels):
        raise CompilerBug(f"the object for {target.name} needs {', '.join(sorted(beyond))}")


def _check_assembler(api: Interface) -> None:
    """Refuse what would end the process: LLVM assembles text only for the processor it runs on."""
    target, dispatched = api.target, takes_assembler(api.levels)
    if not (dispatched or target.needs_tile_permission) or target.architecture is host_target().architecture:
        return
    if dispatched:
        raise TargetError(
            f"objects that choose among levels of {target.architecture.name} can be built only on such a"
            " machine; build them there, or leave out --dispatch"
        )
    raise TargetError(
        f"objects for {target.name} hold a system call and can be built only on a machine with Linux on "
        f"{target.architecture.name}; build them there, or take a target without amx-int8"
    )
