from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from selfwire.cli.commands import expand_option_groups


@dataclass(frozen=True)
class Cut:
    length: Annotated[int, typer.Option(help="How long.")] = 3
    width: Annotated[int, typer.Option(help="How wide.")] = 1


def saw(ctx: typer.Context, *, wood: str, cut: Cut, fast: bool = False) -> None:
    """Saw."""
    typer.echo(f"{wood} {cut} {fast} {sorted(ctx.params)}")


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None)
    made.command()(expand_option_groups(saw))
    return made


def test_the_options_of_a_group_stand_in_its_place(app: typer.Typer) -> None:
    found = CliRunner().invoke(app, ["--help"]).output
    assert "Saw." in found
    places = [found.index(option) for option in ("wood", "--length", "--width", "--fast")]
    assert places == sorted(places)


def test_a_command_is_given_its_groups(app: typer.Typer) -> None:
    found = CliRunner().invoke(app, ["oak", "--width", "2", "--fast"]).output
    assert found == "oak Cut(length=3, width=2) True ['fast', 'length', 'width', 'wood']\n"
