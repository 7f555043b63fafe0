"""The course of a soak test as an SVG image: fragments, versions, and bytes over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 720, 130, 70, 30, 40
_PANELS: Final = (
    ("fragments", "#4a7dd1", 1.0, ""),
    ("versions", "#e0a526", 1.0, ""),
    ("num_bytes", "#d1495b", 1e6, " MB"),
)
_TITLES: Final = {"fragments": "fragments", "versions": "versions", "num_bytes": "bytes on disk"}


@dataclass(frozen=True)
class Sample:
    """The state of the dataset at a moment: seconds since the start, fragments, versions, and bytes on disk."""

    seconds: float
    fragments: int
    versions: int
    num_bytes: int
    rows: int


def write_chart(path: Path, samples: Sequence[Sample], kills: Sequence[float]) -> None:
    """Write the chart; gray lines are the moments at which a process was killed."""
    end = max(sample.seconds for sample in samples)
    height = _TOP + len(_PANELS) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_LEFT + _WIDTH + 20}" height="{height}" fill="white"/>',
    ]
    for place, (name, color, unit, suffix) in enumerate(_PANELS):
        top = _TOP + place * (_HEIGHT + _GAP)
        values = [getattr(sample, name) / unit for sample in samples]
        most = max(values)
        points = _points(
            [
                (_LEFT + sample.seconds / end * _WIDTH, top + _HEIGHT - value / most * _HEIGHT)
                for sample, value in zip(samples, values, strict=True)
            ]
        )
        parts += [
            f'<text x="{_LEFT}" y="{top - 8}" font-weight="bold">{_TITLES[name]}</text>',
            *(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + _HEIGHT}" stroke="#dddddd"/>'
                for x in (_LEFT + second / end * _WIDTH for second in kills)
            ),
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>',
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{top + _HEIGHT}" y2="{top + _HEIGHT}" stroke="#333333"/>',
            f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most:.3g}{suffix}</text>',
            f'<text x="{_LEFT - 6}" y="{top + _HEIGHT}" text-anchor="end">0</text>',
        ]
    bottom = height - _GAP + 16
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LEFT + share * _WIDTH
        parts.append(f'<text x="{x:.0f}" y="{bottom}" text-anchor="middle">{share * end / 60:.3g} min</text>')
    path.write_text("\n".join([*parts, "</svg>", ""]))


def _points(points: Iterable[tuple[float, float]]) -> str:
    """Return the points of a line, without those between the lowest and the highest point of the same pixel column."""
    columns = [list(each) for _, each in groupby(points, lambda point: int(point[0]))]
    kept = [{min(each, key=itemgetter(1)), max(each, key=itemgetter(1))} for each in columns]
    return " ".join(f"{x:.1f},{y:.1f}" for each in kept for x, y in sorted(each))
