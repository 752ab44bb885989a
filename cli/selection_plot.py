"""A picture of selection probabilities: a bar per layer, a block per stage, a colour per agent (Fig. 5, 7).

Drawn with rich, which also writes it as SVG, so that a terminal and a paper show the same.
"""

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from selfwire.cli.output import write_text
from selfwire.graphs.trained_router.probing import Selection

COLOURS = ("blue", "yellow", "green", "red", "magenta", "cyan", "white")
WIDTH = 56
"""Characters of a bar; p = 1 fills it."""


def draw_selection(columns: Mapping[str, Sequence[Selection]]) -> Group:
    """Bars of every stage and layer, for one run or for several versions of a router.

    Args:
        columns: selections by title, such as the number of an update.
    """
    agents = dict.fromkeys(name for found in columns.values() for one in found for name in one.probabilities)
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(agents)}
    legend = Text.assemble(*((f"█ {name}  ", colour) for name, colour in colours.items()))
    return Group(legend, *(_table(title, found, colours) for title, found in columns.items()))


def _table(title: str, found: Sequence[Selection], colours: Mapping[str, str]) -> Table:
    table = Table("stage", "layer", "p", "most probable", "drawn", title=title, title_justify="left", box=None)
    for one in found:
        first = max(one.probabilities, key=lambda name: one.probabilities[name])
        stage = str(one.stage + 1) if one.layer == 0 else ""
        told = f"{first} {one.probabilities[first]:.2f}"
        table.add_row(stage, str(one.layer + 1), draw_bar(one.probabilities, colours), told, ", ".join(one.chosen))
    return table


def draw_bar(shares: Mapping[str, float], colours: Mapping[str, str], width: int = WIDTH) -> Text:
    """One stacked bar; rounding never lengthens it."""
    text, end, drawn = Text(), 0.0, 0
    for name, share in shares.items():
        end += share
        length = max(0, min(width, round(end * width)) - drawn)
        text.append("█" * length, colours[name])
        drawn += length
    return text


def write_svg(columns: Mapping[str, Sequence[Selection]], path: Path) -> None:
    """The picture as an SVG file.

    Raises:
        ConfigError: it cannot be written.
    """
    console = Console(record=True, width=130, file=StringIO(), force_terminal=True)
    console.print(draw_selection(columns))
    write_text(path, console.export_svg(title="selection probabilities"), "the picture")
