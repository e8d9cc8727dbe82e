"""``qimport targets``."""

from __future__ import annotations

from typing import Any

import click

from qimport.cli.options import json_option
from qimport.cli.text import print_json, print_table
from qimport.codegen.host import host_target, why_not_runnable
from qimport.codegen.target import target_descriptions, target_named


@click.command("targets")
@json_option
def command(as_json: bool) -> None:
    """List what code can be built for.

    A target is a name of this list; all but `host` may be followed by features: x86-64-v3+avxvnni.
    """
    host = host_target()
    found: list[dict[str, Any]] = [
        {
            "name": "host",
            "architecture": host.architecture.name,
            "features": sorted(host.features),
            "runs_here": True,
            "description": "this machine",
        }
    ]
    for name, description in target_descriptions().items():
        target = target_named(name)
        found.append(
            {
                "name": name,
                "architecture": target.architecture.name,
                "features": sorted(target.features),
                "runs_here": why_not_runnable(target) is None,
                "description": description,
            }
        )
    if as_json:
        print_json(found)
        return
    rows = [(t["name"], t["runs_here"], " ".join(t["features"]) or "-", t["description"]) for t in found]
    print_table(("target", "runs here", "features", ""), rows)
