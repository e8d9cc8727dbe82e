"""The registry of custom operators, in a module that imports none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qimport.errors import ArgumentError

if TYPE_CHECKING:
    from qimport.frontend.ops.context import OperatorImporter

CUSTOM_IMPORTERS: dict[str, OperatorImporter] = {}
"""Every custom operator that can be imported, by the name in the file."""


def custom_importer(name: str) -> Callable[[OperatorImporter], OperatorImporter]:
    """Enter a function into :data:`CUSTOM_IMPORTERS`, in the place of an earlier one of that name.

    Raises:
        ArgumentError: the name is no text, or what is decorated no function.
    """
    if not isinstance(name, str):
        raise ArgumentError(f"a custom operator is registered by its name, not by {name!r}")

    def register(function: OperatorImporter) -> OperatorImporter:
        if not callable(function):
            raise ArgumentError(f"{function!r} is no function that imports {name}")
        CUSTOM_IMPORTERS[name] = function
        return function

    return register


def foreign_importers() -> bool:
    """Whether some custom operator is imported by a function that is not ours."""
    package = __name__.partition(".")[0]
    homes = [getattr(function, "__module__", None) or "" for function in CUSTOM_IMPORTERS.values()]
    return any(home.partition(".")[0] != package for home in homes)
