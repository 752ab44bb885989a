"""The command that reads a program: adopt."""

from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.extras.adopt.page import format_inventory
from selfwire.extras.adopt.reader import read_program


def adopt(
    name: Annotated[
        str,
        typer.Argument(help="A graph of your own: my_app.graph:graph, or my_app/graph.py:graph as in langgraph.json."),
    ],
) -> None:
    """Read a graph of your own from its source: nodes, edges, tools, models, texts; nothing of it is run."""
    inventory = read_program(name)
    add_result(inventory=inventory)
    typer.echo(format_inventory(inventory))
