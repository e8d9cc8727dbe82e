"""Measure everything and write the tables into docs/performance.md.

    QIMPORT_ZOO=FOLDER python benchmarks/report.py [SECTION ...]

A section is the name of a script of this folder; its table stands between ``<!-- begin SECTION -->`` and
``<!-- end SECTION -->`` of the page. Where the processor plays no part, the script's ``tools()`` say what
measured; where something is missing, the section stays as it is. Without names all sections are measured,
which takes some minutes; nothing else should run meanwhile.
"""

from __future__ import annotations

import importlib
import re
import sys
from datetime import date
from pathlib import Path

from common import machine

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"


def sections(text: str) -> list[str]:
    """Names of the marked sections, in order."""
    return re.findall(r"<!-- begin (\w+) -->", text)


def replaced(text: str, section: str, table: str) -> str:
    """``text`` with another table in a section."""
    begin, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n{table}\n{end}{tail}"


def main() -> None:
    """Measure the sections named on the command line, or all."""
    known = sections(PAGE.read_text())
    wanted = sys.argv[1:] or known
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise SystemExit(f"no section {', '.join(unknown)}; there are {', '.join(known)}")
    for section in wanted:
        print(section, flush=True)
        script = importlib.import_module(section)
        try:
            table = script.table()
        except SystemExit as missing:
            print(f"{section} stays as it is: {missing}")
            continue
        by = getattr(script, "tools", lambda: f"on {machine()}")()
        stamp = f"Measured {date.today().isoformat()} {by}."
        PAGE.write_text(replaced(PAGE.read_text(), section, f"{table}\n\n{stamp}"))


if __name__ == "__main__":
    main()
