"""The one way an operation reports a violated constraint."""

from __future__ import annotations

from qimport.errors import VerifyError


def require(condition: bool, label: str, sentence: str) -> None:
    """Raise :class:`VerifyError` with the constraint's label unless ``condition`` holds."""
    if not condition:
        raise VerifyError(f"({label}) {sentence}")
