"""One thread and as many as there are CPUs, ours and the peers', in the same rounds."""

from __future__ import annotations

import os

from common import SECONDS, markdown, milliseconds, networks

import qimport
from qimport.benchmark import contest
from qimport.oracle import random_inputs
from qimport.peers import Bound, Contestant, Peers

PEERS = ("tflite", "openvino")
MANY = os.cpu_count() or 1


def table() -> str:
    """Milliseconds with one and with all threads, and how many times faster that is."""
    rows = []
    with Peers(PEERS, 1) as single, Peers(PEERS, MANY) as several:
        for network, file in networks().items():
            contestants: dict[str, Contestant] = {}
            for peers in (single, several):
                model = qimport.compile(file, threads=peers.threads)
                inputs = random_inputs(model.inputs, 0)
                session = model.session(inputs)
                contestants[f"qimport {peers.threads}"] = Bound(session.run, session.outputs)
                others = peers.contestants(file.read_bytes(), inputs)
                contestants |= {f"{name} {peers.threads}": other for name, other in others.items()}
            timings, _ = contest(contestants, None, seconds=2 * SECONDS)
            times = {timing.name: timing.minimum for timing in timings}
            row: list[str] = [network]
            for name in ("qimport", *PEERS):
                one, many = times[f"{name} 1"], times[f"{name} {MANY}"]
                row += [milliseconds(one), milliseconds(many), f"{one / many:.2f}"]
            rows.append(row)
    heads = ["network"]
    for name in ("qimport", "XNNPACK", "OpenVINO"):
        heads += [f"{name}, 1 thread", f"{MANY} threads", "speedup"]
    return markdown(heads, rows)


if __name__ == "__main__":
    print(table())
