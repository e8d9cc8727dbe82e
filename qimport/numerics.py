"""Numerics modes: which build of the TFLite interpreter, in which configuration, a model equals.

A mode is a name; :data:`MODES` says what it stands for. Operations ask for the kernel family of a use and,
where the builds of the two platforms differ, for the platform; nothing compares names of modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["reference", "builtin", "xnnpack"]
"""Kernels of the interpreter: portable ones, optimized ones, or those of the XNNPACK delegate."""

Numerics = Literal[
    "reference", "builtin", "xnnpack", "builtin-arm64", "xnnpack-arm64", "xnnpack-arm64-little"
]


@dataclass(frozen=True)
class Mode:
    """An interpreter: its configuration, and the machine that it runs on.

    ``family`` is the configuration: the family that runs whatever it can. ``arm64`` tells the build for
    64-bit ARM from that for x86-64. ``little`` are ARM cores for which XNNPACK has kernels of its own:
    Cortex-A53 and Cortex-A55. The other ARM modes mean cores with dot products (Neoverse-N1, Cortex-A76 and
    later).
    """

    family: Family
    arm64: bool = False
    little: bool = False


MODES: dict[Numerics, Mode] = {
    "reference": Mode("reference"),
    "builtin": Mode("builtin"),
    "xnnpack": Mode("xnnpack"),
    "builtin-arm64": Mode("builtin", arm64=True),
    "xnnpack-arm64": Mode("xnnpack", arm64=True),
    "xnnpack-arm64-little": Mode("xnnpack", arm64=True, little=True),
}
"""What each name stands for."""

NUMERICS: tuple[Numerics, ...] = tuple(MODES)

X86_NUMERICS: tuple[Numerics, ...] = tuple(name for name, mode in MODES.items() if not mode.arm64)
ARM64_NUMERICS: tuple[Numerics, ...] = tuple(name for name, mode in MODES.items() if mode.arm64)


def without_delegate(name: Numerics, family: Family) -> Numerics:
    """The mode of another family on the same machine, for what the family of ``name`` leaves to it.

    The reference kernels have only one.
    """
    mode = MODES[name]
    if family == mode.family:
        return name
    alike = (other for other, m in MODES.items() if (m.family, m.arm64) == (family, mode.arm64))
    return next(alike, "reference")
