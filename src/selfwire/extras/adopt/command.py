"""The command that reads a program: adopt."""

from typing import Annotated, Any

import typer

from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.confirm import QUESTION, confirm_program
from selfwire.extras.adopt.page import format_inventory
from selfwire.extras.adopt.reader import read_program


def adopt(
    program: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A graph of your own: my_app.graph:graph, or my_app/graph.py:graph as in langgraph.json.",
        ),
    ],
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Run it on canned replies in a process that can send nothing: shows which requests carry which text.",
        ),
    ] = False,
    question: Annotated[str, typer.Option(help="With --confirm: what the graph is asked.")] = QUESTION,
    call_tools: Annotated[
        bool, typer.Option("--call-tools", help="With --confirm: run the graph's tools too; else results are canned.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Import the graph, and save it as it is as a team of this name.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help='Where the question goes and the answer is: input={"topic": "{question}"}, answer=x.'
        ),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(
            envvar="SELFWIRE_HOME", show_default="./.selfwire", help="With --name: folder or address of saved teams."
        ),
    ] = None,
) -> None:
    """Read a graph of your own from its source: nodes, edges, tools, models, texts; without options nothing is run."""
    if not confirm and (call_tools or question != QUESTION):
        raise ConfigError("--question and --call-tools would do nothing: give --confirm too")
    if config and not (confirm or name):
        raise ConfigError("--set would do nothing: give --confirm or --name too")
    inventory = read_program(program)
    add_result(inventory=inventory)
    typer.echo(format_inventory(inventory))
    fields: dict[str, Any] = {}
    if config:
        from selfwire.cli.options import parse_config_fields

        fields = parse_config_fields(config)
    if confirm:
        found = confirm_program(inventory, question, fields.get("input"), calls_tools=call_tools)
        add_result(confirmation=found)
        typer.echo(f"\n{found}")
    if name:
        from selfwire.extras.adopt.save import save_graph

        version = save_graph(program, name, fields, home)
        add_result(version=version)
        evolve = f"selfwire evolve {name} --name {name} --benchmark TASKS.jsonl"
        typer.echo(f"\nsaved as {version.ref}; evolve it: {evolve}")
