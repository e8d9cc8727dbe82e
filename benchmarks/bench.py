"""Time compiled models beside the TFLite interpreter, interleaved in one run.

    python benchmarks/bench.py [MODEL.tflite ...] [--rounds N] [--numerics MODE] [--target NAME] [--json]

Without models: the networks in $QIMPORT_ZOO/bench. Each round times qimport, the interpreter's builtin
kernels and its XNNPACK delegate in turn, one thread each; the table shows the fastest of all rounds, because
a neighbour on the machine can only slow things down. Compare ratios, not milliseconds of different runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import qimport
from qimport.codegen.host import host_target
from qimport.oracle import Oracle, OracleRefused, random_inputs

PEERS = ("builtin", "xnnpack")
CALLS = 5
"""Consecutive invocations of one contestant in a round."""


def measure(path: Path, oracle: Oracle, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compile, check the bytes once, then time in turns; milliseconds."""
    started = time.perf_counter()
    model = qimport.compile(path, arguments.target, numerics=arguments.numerics)
    session = model.session()
    compile_seconds = time.perf_counter() - started
    inputs = random_inputs(model.inputs, 0)
    for buffer, array in zip(session.inputs, inputs, strict=True):
        buffer[...] = array
    session.run()
    wanted = oracle.run(path, inputs, arguments.numerics).outputs
    exact = all(a.tobytes() == b.tobytes() for a, b in zip(session.outputs, wanted, strict=True))
    best: dict[str, float] = dict.fromkeys(("qimport", *PEERS), math.inf)
    for _ in range(arguments.rounds):
        for _ in range(CALLS):
            started = time.perf_counter()
            session.run()
            best["qimport"] = min(best["qimport"], time.perf_counter() - started)
        for peer in PEERS:
            try:
                best[peer] = min(best[peer], *oracle.time(path, inputs, peer, rounds=CALLS, warmup=1))
            except OracleRefused:
                best[peer] = math.nan
    return {
        "model": path.stem,
        "exact": exact,
        **{f"{name}_ms": seconds * 1e3 for name, seconds in best.items()},
        "compile_s": compile_seconds,
        "arena_bytes": model.arena_bytes,
        "interpreter_arena_bytes": oracle.memory(path, inputs, "reference").arena_bytes,
    }


def show(results: list[dict[str, Any]], console: Console, arguments: argparse.Namespace) -> None:
    """A table, and the geometric means of the ratios."""
    features = " ".join(sorted(host_target().features))
    title = f"one thread, numerics {arguments.numerics}, target {arguments.target}; this CPU has: {features}"
    table = Table(title=title)
    for heading in ("model", "qimport ms", "builtin ms", "ratio", "XNNPACK ms", "ratio"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for heading in ("compile s", "arena", "interpreter's", "bytes"):
        table.add_column(heading, justify="right")
    for result in results:
        cells = [result["model"], f"{result['qimport_ms']:.3f}"]
        for peer in PEERS:
            cells += [f"{result[f'{peer}_ms']:.3f}", f"{result[f'{peer}_ms'] / result['qimport_ms']:.2f}"]
        cells += [f"{result['compile_s']:.2f}", str(result["arena_bytes"])]
        cells += [str(result["interpreter_arena_bytes"]), "equal" if result["exact"] else "DIFFER"]
        table.add_row(*cells)
    console.print(table)
    for peer in PEERS:
        ratios = [result[f"{peer}_ms"] / result["qimport_ms"] for result in results]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        console.print(f"geometric mean {peer} / qimport: {mean:.2f}")


def main() -> int:
    """Exit code 1 when some output differs from the interpreter's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--numerics", default="reference")
    parser.add_argument("--target", default="host")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    paths = arguments.models
    if not paths:
        if "QIMPORT_ZOO" not in os.environ:
            parser.error("name model files, or set QIMPORT_ZOO to the folder that holds bench/")
        paths = sorted(Path(os.environ["QIMPORT_ZOO"], "bench").glob("*.tflite"))
    with Oracle() as oracle:
        results = [measure(path, oracle, arguments) for path in paths]
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        show(results, Console(width=160), arguments)
    return 0 if all(result["exact"] for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
