"""The machine this process runs on: its architecture, usable features, and the AMX permission."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

import llvmlite.binding as llvm

from qimport.codegen.target import ARM64, X86_64, Architecture, Target, target_named
from qimport.errors import TargetError

_ARCHITECTURES: dict[str, Architecture] = {
    "x86_64": X86_64,
    "amd64": X86_64,
    "aarch64": ARM64,
    "arm64": ARM64,
}


@functools.cache
def request_tile_permission() -> bool:
    """Ask Linux, once per process, for the AMX tile state; False when there is none to be had."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request_xcomp_permission, tile_data = 158, 0x1023, 18
    return int(ctypes.CDLL(None).syscall(arch_prctl, request_xcomp_permission, tile_data)) == 0


@functools.cache
def host_target() -> Target:
    """The best target of this machine: its baseline when LLVM cannot tell the features.

    Raises:
        TargetError: on a machine that no architecture of ours describes.
    """
    machine = platform.machine().lower()
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        raise TargetError(f"this machine is a {machine}; code can run here only on x86-64 and arm64")
    try:
        present = {name for name, on in llvm.get_host_cpu_features().items() if on}
    except RuntimeError:
        present = set()
    usable = {feature.name for feature in architecture.features if present.issuperset(feature.llvm)}
    if "amx-int8" in usable and not request_tile_permission():
        usable.discard("amx-int8")
    closed = {name for name in usable if architecture.closure([name]) <= usable}
    return Target("host", architecture, frozenset(closed))


def resolve_target(name: str | Target) -> Target:
    """A :class:`Target` from its name; ``host`` is this machine.

    Raises:
        TargetError: for an unknown name.
    """
    if isinstance(name, Target):
        return name
    return host_target() if name == "host" else target_named(name)


def why_not_runnable(target: Target) -> str | None:
    """None when this machine can execute code for ``target``, otherwise the reason."""
    host = host_target()
    if target.architecture is not host.architecture:
        return f"{target.name} code does not run on this {host.architecture.name} machine"
    missing = sorted(target.features - host.features)
    return f"this machine lacks {', '.join(missing)}" if missing else None


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
