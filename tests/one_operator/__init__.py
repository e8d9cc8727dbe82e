"""Random models of one operator: families of generators, each a function from random choices to a file.

A module of this package registers its generators with :func:`generator`; importing the package imports
them all. A generator draws only what the interpreter accepts in at least one mode, so a refusal by the
importer is a gap.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.one_operator.model import GENERATORS, Generator, OneOperator, draw_model, generator

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")

__all__ = ["GENERATORS", "Generator", "OneOperator", "draw_model", "generator"]
