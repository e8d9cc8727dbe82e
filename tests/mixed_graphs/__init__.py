"""Random .tflite files over all element types: codes of 8 and 16 bits, floats, plain integers and booleans.

    model = MixedModel(seed)
    file, invocations = model.grow(12), model.invocations()

The other modules of the package are steps: each adds an operator or a few to a tensor of a kind it names.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.mixed_graphs.model import STEPS, MixedModel

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")

__all__ = ["STEPS", "MixedModel"]
