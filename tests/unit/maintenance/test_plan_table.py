"""The table that a dry run prints."""

from __future__ import annotations

from datetime import timedelta

from lance_pipelines.maintenance.plan_table import PlanLine, format_duration, render_plan


def test_rendered_plan_shows_values_before_and_after_and_their_change() -> None:
    text = render_plan(
        "compact /lake/t.lance",
        [
            PlanLine("rows", 1_234_567, 1_234_567),
            PlanLine("fragments", 25, 2, is_estimate=True),
            PlanLine("versions", 3, 5),
            PlanLine("bytes", 3 * 1024**2, 1024**2, is_bytes=True),
        ],
        ["Dry run: nothing was changed."],
    )
    title, header, _, *rows, note = text.splitlines()
    assert title == "compact /lake/t.lance"
    assert header.split() == ["before", "after", "change"]
    assert [row.split() for row in rows] == [
        ["rows", "1,234,567", "1,234,567"],
        ["fragments", "25", "~2", "~-23"],
        ["versions", "3", "5", "+2"],
        ["bytes", "3", "MiB", "1", "MiB", "-2", "MiB"],
    ]
    assert note == "Dry run: nothing was changed."
    assert all(line == line.rstrip() for line in text.splitlines())


def test_rendered_plan_shows_unknown_values() -> None:
    (row,) = [
        line
        for line in render_plan("t", [PlanLine("bytes", None, None, is_bytes=True)]).splitlines()
        if "bytes" in line
    ]
    assert row.split() == ["bytes", "unknown", "unknown"]


def test_rendered_plan_does_not_interpret_markup() -> None:
    assert "[bold] :smile:" in render_plan("t", [PlanLine("[bold] :smile:", 1, 1)])


def test_duration_is_formatted_in_words() -> None:
    assert format_duration(timedelta(days=14)) == "2 weeks"
