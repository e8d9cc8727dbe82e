"""The command line: presentation only. :func:`main` is the console script."""

from qimport.cli.app import main

__all__ = ["main"]
