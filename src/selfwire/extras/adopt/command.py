"""The command that reads a program: adopt."""

from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.extras.adopt.confirm import QUESTION, confirm_program
from selfwire.extras.adopt.page import format_inventory
from selfwire.extras.adopt.reader import read_program


def adopt(
    name: Annotated[
        str,
        typer.Argument(help="A graph of your own: my_app.graph:graph, or my_app/graph.py:graph as in langgraph.json."),
    ],
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Import it too, and run it on canned replies in a process that can send nothing: shows which texts "
            "its requests carry.",
        ),
    ] = False,
    question: Annotated[str, typer.Option(help="With --confirm: what the graph is asked.")] = QUESTION,
    given: Annotated[
        str, typer.Option("--input", help='With --confirm: the graph\'s input as JSON, such as {"topic": "{question}"}.')
    ] = "",
    call_tools: Annotated[
        bool, typer.Option("--call-tools", help="With --confirm: run the graph's tools, which give canned results else.")
    ] = False,
) -> None:
    """Read a graph of your own from its source: nodes, edges, tools, models, texts; nothing of it is run."""
    inventory = read_program(name)
    add_result(inventory=inventory)
    typer.echo(format_inventory(inventory))
    if confirm:
        found = confirm_program(inventory, question, given, calls_tools=call_tools)
        add_result(confirmation=found)
        typer.echo(f"\n{found}")
