"""The version, in a module that imports nothing."""

VERSION = "0.1.0"
"""Of this package; a saved model is read only by the version that wrote it."""
