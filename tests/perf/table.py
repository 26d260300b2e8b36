"""Prints measurements as one aligned table per case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def show(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows below their column names, in the order of the first row."""
    columns = list(rows[0])
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    print(f"\n{title}")
    for number, line in enumerate(cells):
        print("  " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    print(flush=True)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
