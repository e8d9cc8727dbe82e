"""From the qnn dialect to prim graphs and kernel plans. Importing this package enters every lowering rule."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
