"""Versions, in a module that imports nothing."""

VERSION = "0.1.0"
"""Of this package; a saved model is read only by the version that wrote it."""

INTERPRETER_VERSION = "2.3.0"
"""The ai-edge-litert release whose bytes the numerics modes are named after (one thread)."""

INTERPRETER = f"ai-edge-litert {INTERPRETER_VERSION}"
"""The same as headers and saved models name it."""
