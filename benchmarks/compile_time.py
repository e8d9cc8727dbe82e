"""How long compiling takes in a new process, the first time and with the model in the cache; peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import markdown, networks

ONE = """
import json, sys, time
import qimport
if sys.argv[2:]:
    import llvmlite.binding, numpy
started = time.perf_counter()
model = qimport.compile(sys.argv[1])
model.session()
seconds = time.perf_counter() - started
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, int(peak) * 1024]))
"""
"""Compiles a model until it could run; peak memory is that of the process since it began to run Python."""

ROUNDS = 3


def table() -> str:
    """Seconds and megabytes: the best of several processes, because neighbours can only slow one down."""
    rows = []
    for network, file in networks().items():
        cold, warm, loaded, most = [], [], [], 0.0
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                first, memory = _compile(file, folder)
                cold.append(first)
                most = max(most, memory)
                warm.append(_compile(file, folder)[0])
                loaded.append(_compile(file, folder, "loaded")[0])
        seconds = [f"{min(cold):.2f}", f"{min(warm):.3f}", f"{min(loaded):.3f}"]
        rows.append([network, *seconds, f"{most / 1e6:,.0f}"])
    heads = ["network", "cold, s", "from the cache, s", "with NumPy and llvmlite loaded, s"]
    return markdown([*heads, "peak memory, MB"], rows)


def _compile(file: Path, cache: str, *libraries: str) -> tuple[float, float]:
    """Seconds and bytes of a process with this cache folder, which has imported libraries before."""
    environment = {**os.environ, "QIMPORT_CACHE": "1", "QIMPORT_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their byte code, too
    command = [sys.executable, "-c", ONE, str(file), *libraries]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    seconds, memory = json.loads(output)
    return seconds, memory


if __name__ == "__main__":
    print(table())
