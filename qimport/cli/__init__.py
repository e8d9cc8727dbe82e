"""The command line: presentation only. :func:`main` is the console script."""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line with the arguments of the process."""
    try:
        from qimport.cli.app import main as run  # not above: Ctrl-C may come while the modules load
    except KeyboardInterrupt:
        sys.stderr.write("qimport: error: interrupted\n")
        sys.exit(INTERRUPTED)
    run()


__all__ = ["main"]
