"""One importer function per operator of TFLite; :data:`IMPORTERS` lists them by builtin name.

Importing this package imports all of its modules, and with that enters their importers.
"""

from importlib import import_module
from pkgutil import iter_modules

from qimport.frontend.custom import custom_importer as register_custom_operator
from qimport.frontend.ops.context import IMPORTERS

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")

__all__ = ["IMPORTERS", "register_custom_operator"]
