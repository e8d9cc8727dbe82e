"""The networks of bench/ beside XNNPACK and OpenVINO: one thread, mode reference, the best target."""

from __future__ import annotations

from common import SECONDS, markdown, mean, milliseconds, networks, shortest

from qimport.benchmark import measure
from qimport.peers import Peers

PEERS = ("tflite", "openvino")


def table() -> str:
    """Milliseconds, ratios, and how many output elements of OpenVINO are not the reference kernels'."""
    rows, to_xnnpack, to_best = [], [], []
    with Peers(PEERS) as peers:
        for name, file in networks().items():
            result = measure(file, peers, seconds=SECONDS)
            xnnpack, openvino = (result.ratio(peer) for peer in PEERS)
            to_xnnpack.append(xnnpack)
            to_best.append(min(xnnpack, openvino))
            times = [milliseconds(shortest(result, each)) for each in ("qimport", *PEERS)]
            ratios = [f"{xnnpack:.2f}", f"{to_best[-1]:.2f}"]
            differing = next(timing.differing for timing in result.timings if timing.name == "openvino")
            bytes_ = ["equal" if result.exact else "DIFFER", f"{differing} of {result.output_elements}"]
            rows.append([name, *times, *ratios, *bytes_])
    rows.append(["geometric mean", "", "", "", mean(to_xnnpack), mean(to_best), "", ""])
    columns = ["network", "qimport", "XNNPACK", "OpenVINO", "XNNPACK / qimport", "best / qimport"]
    return markdown([*columns, "our outputs", "OpenVINO's that differ"], rows)


if __name__ == "__main__":
    print(table())
