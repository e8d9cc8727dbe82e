"""qimport compiles quantized TensorFlow Lite models to native code that gives the interpreter's exact bytes.

::

    model = qimport.compile("model.tflite")
    outputs = model.run([image])

The names below are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from qimport.version import VERSION as __version__  # noqa: N811

if TYPE_CHECKING:
    from qimport.artefact import TensorInfo
    from qimport.codegen.target import Target
    from qimport.compiler import compile  # noqa: A004 - the public name
    from qimport.errors import (
        ArgumentError,
        CompilerBug,
        ModelError,
        QimportError,
        Reason,
        TargetError,
        UnsupportedError,
    )
    from qimport.frontend.ops import register_custom_operator
    from qimport.frontend.ops.context import OperatorContext
    from qimport.interpreter import Interpreter
    from qimport.model import CompiledModel, Session, load

__all__ = [
    "ArgumentError",
    "CompiledModel",
    "CompilerBug",
    "Interpreter",
    "ModelError",
    "OperatorContext",
    "QimportError",
    "Reason",
    "Session",
    "Target",
    "TargetError",
    "TensorInfo",
    "UnsupportedError",
    "__version__",
    "compile",
    "load",
    "register_custom_operator",
]

_MODULES = {
    "artefact": ("TensorInfo",),
    "codegen.target": ("Target",),
    "compiler": ("compile",),
    "errors": (
        "ArgumentError",
        "CompilerBug",
        "ModelError",
        "QimportError",
        "Reason",
        "TargetError",
        "UnsupportedError",
    ),
    "frontend.ops.context": ("OperatorContext",),
    "frontend.ops": ("register_custom_operator",),
    "interpreter": ("Interpreter",),
    "model": ("CompiledModel", "Session", "load"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'qimport' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"qimport.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
