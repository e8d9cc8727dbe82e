"""What the products of each target reach on this machine when nothing else costs time."""

from __future__ import annotations

from common import markdown

from qimport.codegen.host import why_not_runnable
from qimport.codegen.peak import row_peak
from qimport.codegen.target import target_named

ROWS = [
    ("mac_amx", "x86-64-amx", "tdpbssd on 2 x 2 tiles, loads included"),
    ("mac_tile_avx512vnni", "x86-64-vnni", "vpdpbusd zmm"),
    ("mac_tile_avx512vnni_words", "x86-64-vnni", "vpdpwssd zmm"),
    ("mac_tile_avxvnni", "x86-64-avxvnni", "vpdpbusd ymm"),
    ("mac_tile_avx512", "x86-64-v4", "vpmaddwd zmm"),
    ("mac_tile_avx2", "x86-64-v3", "vpmaddwd ymm"),
    ("mac_tile_sse2", "x86-64", "pmaddwd xmm"),
    ("mac_block_i8mm", "arm64-i8mm", "smmla"),
    ("mac_block_dotprod", "arm64-dotprod", "sdot"),
    ("mac_block_neon", "arm64", "smull, smlal2, sadalp"),
]


def table() -> str:
    """GMAC/s of one core."""
    rows = []
    for row, name, instruction in ROWS:
        target = target_named(name)
        if why_not_runnable(target) is None:
            rows.append([f"`{row}`", instruction, f"{(row_peak(row, target) or 0) / 1e9:,.0f}"])
    return markdown(["row", "instruction", "GMAC/s"], rows)


if __name__ == "__main__":
    print(table())
