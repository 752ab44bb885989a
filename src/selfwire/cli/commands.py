"""The commands by name, imported when they are called, and their exit codes."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any

import typer

COMMANDS = {
    "check": ("check:check", "Check tasks and grader before a model is asked."),
    "tasks": ("tasks:build", "Make tasks from the traces of an application."),
    "evolve": ("evolve:evolve", "Evolve a team on a benchmark."),
    "prune": ("evolve:prune", "Take out what a saved team does not need."),
    "train": ("train:train", "Train a router by the rewards of its runs."),
    "selection": ("memory:selection", "Ask a question and show which agents the trained router selects."),
    "run": ("run:run", "Put one question to a team and print its answer."),
    "eval": ("evaluate:evaluate", "Measure a method, a baseline or a saved team."),
    "compare": ("compare:compare", "Measure several systems on the same tasks."),
    "prove": ("prove:prove", "Find out what systems are worth with your model, at equal price."),
    "adopt": ("", "Read a graph of your own: nodes, edges, tools, models, texts."),
    "ablate": ("", "Compare a method with its ablations and controls."),
    "show": ("teams:show", "Show a team, or the tasks of a run."),
    "diff": ("teams:diff", "Show what changed from one team to another."),
    "front": ("teams:front", "List the versions of a team by score and price."),
    "history": ("teams:history", "List the versions of a team."),
    "rollback": ("teams:rollback", "Make an older version of a team the current one."),
    "export": ("teams:export", "Write a team to a file: JSON, its LangGraph in Python, or a patch."),
    "push": ("hub:push", "Write the prompts of a team to LangSmith's prompt hub."),
    "pull": ("hub:pull", "Take prompts from LangSmith's prompt hub, as a new version."),
    "report": ("", "Make an HTML page of a run and its team."),
    "view": ("", "Serve the pages of runs on this machine, live."),
    "runs": ("runs:runs", "List runs: what they did, how they stand, what they spent."),
    "clean": ("runs:clean", "Remove runs, and with --library the saved teams."),
    "measures": ("memory:measures", "Show how a run's training changed its topologies."),
    "results": ("", "Compute the tables of documentation pages from kept rows."),
    "recall": ("memory:recall", "Show how often the search finds what questions need."),
    "insights": ("memory:build", "List, export or import what a team has learned."),
    "init": ("config_file:init", "Write a config file with every option."),
    "version": ("app:version", "Print the version."),
}
"""Commands by name, in the order of the help text: the function (or that of a group) in this room, and one line.

Commands without a function here are entry points of the group `selfwire.commands`.
"""
EXAMPLES = {
    "check": "--benchmark my.jsonl --grader f1 --model openai:gpt-4o-mini",
    "evolve": "hiva --benchmark my.jsonl --grader f1 --model openai:gpt-4o-mini --name mine",
    "prune": "mine --benchmark my.jsonl --grader f1",
    "train": "evomas --benchmark my.jsonl --grader f1 --model openai:gpt-4o-mini",
    "selection": 'evomas-my "What is 20 + 22?"',
    "run": 'mine "What is 20 + 22?" --show',
    "eval": "single --benchmark my.jsonl --grader f1 --model openai:gpt-4o-mini",
    "compare": "mine single --benchmark my.jsonl --grader f1",
    "prove": "--model openai:gpt-4o-mini --budget-usd 25",
    "adopt": "my_app.py:graph",
    "ablate": "hera --benchmark archive --dry-run",
    "show": "mine",
    "diff": "mine@0 mine",
    "front": "mine",
    "history": "mine",
    "rollback": "mine 0",
    "export": "mine mine.py",
    "report": "mine",
    "results": "--check docs/results.md",
    "recall": "hotpotqa",
}
"""Arguments of a usual call of a command, which its help shows; others are called by name alone, or are groups."""
GROUPS = {"insights", "tasks"}
READING = {"adopt", "version"}
"""Commands that ask no model; they import no framework, and trace nothing."""
FILE = "selfwire.toml"
"""The config file that is read from the working directory, where it exists."""
FOUND = "selfwire.found"
"""Key of a context under which a config file that nobody has named is kept."""

FAILED = 1
"""Results that are not good enough: more errors than allowed, or a page that differs from its rows."""
WRONG = 2
"""Input that cannot be used, and every error that selfwire raises on purpose."""
STOPPED = 3
"""A budget or a provider has stopped the run; it can be resumed."""
INTERRUPTED = 130
"""Ctrl-C, with the code of shells, and SIGTERM."""
NO_READER = 141
"""The output went to a program that has ended, such as `head`; shells use this code for SIGPIPE."""


def load_command(name: str) -> Any:
    """Import a command."""
    from selfwire.cli.json_output import add_json_option
    from selfwire.core.plugins import load_plugin

    module, _, function = COMMANDS[name][0].partition(":")
    if module:
        found = getattr(import_module(f"{__package__}.{module}"), function)
    else:
        found = load_plugin("selfwire.commands", name)
    holder = typer.Typer(rich_markup_mode=None)
    if name in GROUPS:
        holder.add_typer(found(), name=name)
    else:
        holder.command(name)(add_json_option(name, expand_option_groups(found)))
    command = typer.main.get_group(holder).commands[name]
    if name in EXAMPLES:
        command.help = f"{command.help}\n\n\b\nExample:\n  selfwire {name} {EXAMPLES[name]}"
    return command


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command that typer can read: replace each parameter that is a dataclass by its fields."""
    asked = signature(command).parameters.values()
    groups: dict[str, Any] = {option.name: option.annotation for option in asked if is_dataclass(option.annotation)}
    parts = {name: signature(group).parameters for name, group in groups.items()}
    flat = [option for given in asked for option in parts.get(given.name, {given.name: given}).values()]

    @wraps(command)
    def called(**given: Any) -> None:
        made = {name: group(**{option: given.pop(option) for option in parts[name]}) for name, group in groups.items()}
        command(**given, **made)

    keyword_only = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in flat]
    called.__signature__ = Signature(keyword_only)  # type: ignore[attr-defined]  # inspect heeds it, and so typer
    return called
