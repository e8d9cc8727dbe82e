"""What all qnn operations share: which kernel family of the interpreter runs them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from qimport.ir.graph import Call, Operation
from qimport.numerics import Family, Mode


@dataclass(frozen=True)
class QnnOperation(Operation):
    """An operation on quantized tensors, named and shaped like the TFLite operator it stands for."""

    delegable: bool = field(default=True, kw_only=True)
    """False where the file leaves a rank open that the delegate asks for: it leaves such uses alone."""

    RANKED: ClassVar[bool] = False
    """Whether the delegate asks for the rank that the file states for the first operand."""

    TFLITE: ClassVar[tuple[str, ...]]
    """Operators of TFLite that import as this operation: builtin ones, or the name of a custom one."""

    def xnnpack_takes(self, call: Call) -> bool:
        """Whether the XNNPACK delegate of the interpreter runs this use (default: no)."""
        return False

    def unsupported(self, call: Call) -> str | None:
        """Why this use has no bytes to equal in the call's numerics, as a sentence (default: it has)."""
        return None

    ARM64_FLOATS: ClassVar[tuple[Family, ...]] = ("reference", "builtin", "xnnpack")
    """Kernel families of which the build for ARM gives the same float32 results, as far as they are known."""

    def unknown(self, call: Call) -> str | None:
        """Why this use is refused in an ARM mode although the interpreter runs it there."""
        dtypes = {type_.dtype for type_ in call.outputs}
        if call.mode.little and "float16" in dtypes and self.kernel_family(call) == "xnnpack":
            return "little ARM cores have no arithmetic of float16, and what is in its place is not known"
        floats = not dtypes.isdisjoint(("float32", "float16", "complex64"))
        if not (call.mode.arm64 and floats) or self.kernel_family(call) in self.ARM64_FLOATS:
            return None
        return f"how the ARM build of the interpreter computes {self.TFLITE[0]} of floats is not known"

    def ulp_bound(self, call: Call) -> int:
        """Largest distance of float results from the interpreter's in units of the last place (default 0).

        Not 0 only where the interpreter calls functions of its C library or sums floats in an order that
        depends on its build; the docstring of the operation says what was measured.
        """
        return 0

    def kernels(self, call: Call) -> Mode:
        """The mode with the family that runs this use, for what depends on the machine as well."""
        return replace(call.mode, family=self.kernel_family(call))

    def kernel_family(self, call: Call) -> Family:
        """Whose bytes this use equals; what the delegate leaves alone runs as ``builtin``."""
        if call.mode.family == "xnnpack" and not (self.delegable and self.xnnpack_takes(call)):
            return "builtin"
        return call.mode.family
