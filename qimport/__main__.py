"""``python -m qimport``: the command line."""

from qimport.cli import main

main()
