"""The arena over time: which bytes are in use in which step of a plan, as numbers and as drawings."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import Any

from qimport.errors import ArgumentError
from qimport.lower.arena import Piece
from qimport.lower.plan import Plan

COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#edc948", "#76b7b2", "#e15759", "#9c755f")
"""Of neighbouring steps' results."""

STATE_COLOR = "#9aa0a6"

WIDTH, HEIGHT, MARGIN = 900, 420, 70
"""Of the drawing in pixels; the margin holds the numbers."""


@dataclass(frozen=True)
class Moment:
    """A step of the plan: its kernel, the operators it belongs to, and the bytes of the arena in use."""

    step: int
    kernel: str
    origin: str
    nbytes: int


@dataclass(frozen=True)
class Timeline:
    """The arena of a plan for one thread: ``arena`` bytes, the first ``state`` of them kept between calls."""

    name: str
    arena: int
    state: int
    moments: tuple[Moment, ...]
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, plan: Plan) -> Timeline:
        """That of a plan before it is split for threads."""
        used = [plan.state_bytes] * len(plan.calls)
        for piece in plan.pieces:
            for step in range(piece.first, piece.last + 1):
                used[step] += piece.end - piece.begin
        moments = tuple(
            Moment(step, call.lines()[0].partition("  (")[0], call.origin, used[step])
            for step, call in enumerate(plan.calls)
        )
        return cls(plan.name, plan.arena_bytes, plan.state_bytes, moments, plan.pieces)

    @cached_property
    def peak(self) -> Moment | None:
        """The first of the steps that use the most bytes; None in a plan without any."""
        return max(self.moments, key=lambda moment: moment.nbytes, default=None)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "arena_bytes": self.arena,
            "state_bytes": self.state,
            "peak": None if self.peak is None else asdict(self.peak),
            "steps": [asdict(moment) for moment in self.moments],
            "pieces": [asdict(piece) for piece in self.pieces],
        }

    def maps(self, columns: int) -> Iterator[str]:
        """Each step as a picture of the arena: ``=`` in use, ``#`` first used in this step, ``.`` free."""
        for moment in self.moments:
            cells = ["."] * columns
            alive = [piece for piece in self._all_pieces if piece.first <= moment.step <= piece.last]
            for piece in sorted(alive, key=lambda piece: piece.first):
                begin, end = (place * columns / self.arena for place in (piece.begin, piece.end))
                for cell in range(int(begin), max(int(begin) + 1, round(end))):
                    cells[min(cell, columns - 1)] = "#" if piece.first == moment.step else "="
            yield "".join(cells)

    @property
    def _all_pieces(self) -> list[Piece]:
        state = [Piece(0, self.state, -1, len(self.moments) - 1)] if self.state else []
        return [*state, *self.pieces]

    @property
    def _rectangles(self) -> Iterator[tuple[Piece, str, str]]:
        """Pieces with their colours and what is said of them."""
        for piece in self._all_pieces:
            if piece.first < 0:
                yield Piece(piece.begin, piece.end, 0, piece.last), STATE_COLOR, "state"
            else:
                yield piece, COLORS[piece.first % len(COLORS)], self.moments[piece.first].kernel

    def svg(self) -> str:
        """Steps to the right, addresses upwards, a rectangle for every piece, with its name as a tooltip."""
        steps, arena = max(len(self.moments), 1), max(self.arena, 1)
        across, up = (WIDTH - MARGIN - 20) / steps, (HEIGHT - 60) / arena
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{MARGIN}" y="16">{escape(self.name)}: arena of {self.arena:,} bytes</text>',
        ]
        for piece, color, text in self._rectangles:
            x, y = MARGIN + across * piece.first, HEIGHT - 32 - up * piece.end
            width, height = across * (piece.last - piece.first + 1), up * (piece.end - piece.begin)
            size = f'width="{width:.2f}" height="{height:.2f}"'
            label = f"{text}, {piece.end - piece.begin:,} bytes at {piece.begin:,}"
            lines.append(
                f'<rect x="{x:.2f}" y="{y:.2f}" {size} fill="{color}" stroke="white" stroke-width="0.5">'
                f"<title>{escape(label)}</title></rect>"
            )
        for part in range(5):
            y = HEIGHT - 32 - up * arena * part / 4
            lines.append(
                f'<text x="{MARGIN - 6}" y="{y + 4:.2f}" text-anchor="end">{arena * part // 4:,}</text>'
            )
        for part in range(5):
            step = (steps - 1) * part // 4
            lines.append(f'<text x="{MARGIN + across * step:.2f}" y="{HEIGHT - 12}">{step}</text>')
        return "\n".join([*lines, "</svg>", ""])

    def png(self) -> bytes:
        """The same picture as pixels.

        Raises:
            ArgumentError: matplotlib is not installed.
        """
        try:
            figures = importlib.import_module("matplotlib.figure")
        except ImportError as error:
            raise ArgumentError(
                "a PNG file needs matplotlib (pip install 'qimport[plot]'); SVG files need nothing"
            ) from error
        figure = figures.Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=150)
        axes = figure.add_subplot(
            title=f"{self.name}: arena of {self.arena:,} bytes", xlabel="step", ylabel="bytes"
        )
        for piece, color, _ in self._rectangles:
            steps = piece.last - piece.first + 1
            axes.bar(
                piece.first,
                piece.end - piece.begin,
                steps,
                piece.begin,
                align="edge",
                color=color,
                edgecolor="white",
                linewidth=0.3,
            )
        stream = io.BytesIO()
        figure.savefig(stream, format="png", metadata={"Software": None})
        return stream.getvalue()
