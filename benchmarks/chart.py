"""The factors as a bar chart in SVG, without a plotting library. Pure.

Bars start at kube-apiserver's line (1x) and go right where aggserver is better, and left where it is worse. The scale is
logarithmic, so that twice and half are equally far. A stroke marks each aim. Colours follow the reader's colour scheme, light or
dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.report import BASELINE, MEASURED, Row, number

__all__ = ["svg"]

WIDTH, MARGIN = 900, 20  # user units, pixels when not scaled
LABELS = 320  # room for the titles
VALUES = 70  # room for the factors right of the plot
ROW, BAR = 30, 16
TOP, BOTTOM = 64, 34

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .quiet { fill: #59636e } .title { font-size: 15px; font-weight: 600 }
  .grid { stroke: #d1d9e0; stroke-width: 1 } .one { stroke: #59636e; stroke-width: 1.5 }
  .aim { stroke: #1f2328; stroke-width: 2.5 }
  .met { fill: #1a7f6b } .short { fill: #d0731c }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .quiet { fill: #9198a1 } .grid { stroke: #3d444d } .one { stroke: #9198a1 } .aim { stroke: #f0f6fc }
    .met { fill: #3fb99e } .short { fill: #e8944a }
  }
"""


def svg(rows: Sequence[Row], caption: str) -> str:
    """A chart of the rows that have a factor, as a whole SVG document."""
    drawn = [(row, factor) for row in rows if (factor := row.factor) is not None]
    scale = _Scale([value for row, factor in drawn for value in (factor, row.aim)])
    height = TOP + ROW * len(drawn) + BOTTOM
    title = f"{MEASURED} over {BASELINE}: how many times better"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{MARGIN}" y="26">{escape(title)}</text>',
        f'<text class="quiet" x="{MARGIN}" y="46">{escape(caption)}</text>',
        *(_tick(scale, tick, height - BOTTOM) for tick in scale.ticks),
        *(_bar(scale, row, factor, TOP + ROW * index) for index, (row, factor) in enumerate(drawn)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Scale:
    """Factors to horizontal positions; whole powers of two are marked."""

    def __init__(self, values: Sequence[float]) -> None:
        low = math.floor(math.log2(min([1.0, *values])))
        high = max(math.ceil(math.log2(max([2.0, *values]))), low + 1)
        self.ticks = [2.0**power for power in range(low, high + 1)]
        self._low, self._span = low, high - low

    def __call__(self, factor: float) -> float:
        room = WIDTH - 2 * MARGIN - LABELS - VALUES
        return round(MARGIN + LABELS + room * (math.log2(factor) - self._low) / self._span, 1)


def _tick(scale: _Scale, factor: float, bottom: float) -> str:
    x, kind = scale(factor), "one" if factor == 1 else "grid"
    text = f"{factor:g}x" if factor >= 1 else f"1/{1 / factor:g}"
    return (
        f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 4}" y2="{bottom}"/>'
        f'<text class="quiet" x="{x}" y="{bottom + 18}" text-anchor="middle">{text}</text>'
    )


def _bar(scale: _Scale, row: Row, factor: float, top: float) -> str:
    start, end, aim = scale(1), scale(factor), scale(row.aim)
    y, middle = top + (ROW - BAR) / 2, top + ROW / 2 + 4.5
    return (
        f'<text x="{MARGIN + LABELS - 12}" y="{middle}" text-anchor="end">{escape(row.title)}</text>'
        f'<rect class="{"met" if row.met else "short"}" x="{min(start, end)}" y="{y}" '
        f'width="{max(abs(end - start), 1):.1f}" height="{BAR}" rx="2"/>'
        f'<line class="aim" x1="{aim}" x2="{aim}" y1="{y - 4}" y2="{y + BAR + 4}"/>'
        f'<text x="{WIDTH - MARGIN}" y="{middle}" text-anchor="end">{number(factor)}x</text>'
    )
