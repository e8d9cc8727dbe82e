"""What all qnn operations share: which kernel family of the interpreter runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from qimport.ir.graph import Call, Operation
from qimport.numerics import Family


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

    def ulp_bound(self, call: Call) -> int:
        """Largest distance of float results from the interpreter's in units of the last place (default 0).

        Not 0 only where the interpreter calls functions of its C library or sums floats in an order that
        depends on its build; the docstring of the operation says what was measured.
        """
        return 0

    def kernel_family(self, call: Call) -> Family:
        """Whose bytes this use equals; what the delegate leaves alone runs as ``builtin``."""
        if call.mode.family == "xnnpack" and not (self.delegable and self.xnnpack_takes(call)):
            return "builtin"
        return call.mode.family
