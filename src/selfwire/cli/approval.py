"""Questions of `evolve --approve edits` on a terminal: a change is shown, and a person answers."""

import getpass
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from selfwire.cli import output
from selfwire.core.edits import Rewiring, format_rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.text import say_once
from selfwire.core.values import mask_controls, to_plain_json
from selfwire.evals.statistics import IntervalEstimate
from selfwire.evals.table import format_difference, format_dollars
from selfwire.graphs.approval import ApprovalQuestion

WORDS = {"a": "approve", "e": "edit", "r": "reject"}
"""Answers by their letter; "always" is typed out."""
PROMPT_FILE = 200_000
"""Most characters of a file with a prompt; a device may have no end."""


def show_question(question: ApprovalQuestion, before: Team, after: Team) -> None:
    """Print a change that waits for a person: its diff, reasons, gain and price per task."""
    out = output.make_console()
    out.print(f"\niteration {question.iteration}: a change of {question.name!r} waits for your answer", style="bold")
    output.show_changes(after.diff(before), before, after)
    rewirings = [Rewiring.model_validate(to_plain_json(rewiring)) for rewiring in question.rewirings]
    for rewiring, why in zip(rewirings, say_once(rewiring.why for rewiring in rewirings), strict=True):
        out.print(f"  {format_rewiring(rewiring.replace(why=why))}".replace("\n", "\n      "))
    out.print(f"gate: {question.why}")
    out.print(f"gain: {_format_gain(question.gain)}")
    out.print(f"per task: {_format_price(question.before)} before, {_format_price(question.after)} after")


def _format_gain(gain: Any) -> str:
    if gain is None:
        return "nothing was compared"
    found = format_difference(IntervalEstimate.model_validate(gain))
    return f"{found} over {gain['n']} held-out tasks (95 %, wherever the gate has stopped)"


def _format_price(price: Any) -> str:
    if price is None:
        return "not measured"
    cost = "price unknown" if price["dollars"] is None else f"${format_dollars(price['dollars'])}"
    return f"{price['calls']:.2f} calls, {price['tokens']:,.0f} tokens, {cost}"


def ask(question: ApprovalQuestion, refused: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Ask on the terminal; return the answer as the evolution's graph takes it.

    Args:
        refused: the last answer, where it could not be used; its texts are offered again.

    Raises:
        typer.Abort: the person has left without an answer.
    """
    if question.fault:
        typer.echo(f"that cannot be used: {mask_controls(question.fault)}", err=True)
    words = {letter: word for letter, word in WORDS.items() if word != "edit" or question.prompts}
    ways = ", ".join(f"({word[0]}){word[1:]}" for word in words.values())
    written = refused if refused and question.fault else {}
    why, drafts = written.get("why", ""), written.get("prompts", {})
    while True:
        typed = typer.prompt(f"{ways}, or always approve {', '.join(question.kinds)}", err=True).strip().lower()
        answer = words.get(typed, typed.partition(" ")[0])
        if answer not in (*words.values(), "always"):
            typer.echo(f"type {', '.join(words)} or always", err=True)
            continue
        given: dict[str, Any] = {"answer": answer, "by": _get_user()}
        if answer in ("reject", "edit"):
            why = typer.prompt("why (for the history)", default=why, show_default=bool(why), err=True)[:1000]
            given["why"] = why
        if answer != "edit":
            return given
        try:
            if prompts := _ask_prompt(question, drafts):
                return {**given, "prompts": prompts}
        except ConfigError as error:
            typer.echo(f"that cannot be used: {mask_controls(str(error))}", err=True)


def _ask_prompt(question: ApprovalQuestion, drafts: Mapping[str, str]) -> dict[str, str]:
    """Ask for the new prompt of an agent; empty where it has not changed.

    Args:
        drafts: prompts that were refused, from which an editor starts.

    Raises:
        ConfigError: there is no such agent, or the file or editor cannot be used.
    """
    changed = [change["agent"] for change in question.diff.get("agents", ()) if change["field"] == "prompt"]
    agents = ", ".join(question.prompts)
    agent = typer.prompt(f"agent ({agents})", default=next(iter([*drafts, *changed, *question.prompts])), err=True)
    agent = agent.strip()
    if agent not in question.prompts:
        raise ConfigError(f"there is no agent {agent!r}; agents are {agents}")
    file = typer.prompt("file with its prompt, or Enter for your editor", default="", show_default=False, err=True)
    if not file:
        text = _edit(drafts.get(agent, question.prompts[agent]))
    else:
        text = _read_prompt(Path(file))
    if text.rstrip() == question.prompts[agent].rstrip():
        typer.echo("the prompt is as it was", err=True)
        return {}
    return {agent: text.rstrip("\n")}


def _read_prompt(file: Path) -> str:
    """Read a file with a prompt; raises ConfigError where it cannot be used."""
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(PROMPT_FILE + 1)
    except OSError as error:
        raise ConfigError(
            f"file {file} cannot be read: {error.strerror}; give another, or Enter for an editor"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"file {file} is no text in UTF-8; save it as such, or give another") from None
    if len(text) > PROMPT_FILE:
        raise ConfigError(f"file {file} has more than {PROMPT_FILE:,} characters; give a prompt")
    return text


def _edit(text: str) -> str:
    """Let the user edit a text; return it.

    Raises:
        ConfigError: no editor is named, it cannot be started, or it has failed.
    """
    variable = "VISUAL" if os.environ.get("VISUAL") else "EDITOR"
    named = os.environ.get(variable, "")
    try:
        editor = shlex.split(named)
    except ValueError as error:
        raise ConfigError(f"{variable}={named} names no editor ({error}); mend it, or give a file") from None
    if not editor:
        raise ConfigError("neither VISUAL nor EDITOR names an editor; name one, or give a file")
    with TemporaryDirectory() as folder:
        file = Path(folder, "prompt.md")
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*editor, str(file)], check=False).returncode
        except OSError as error:
            why = f"{variable}={named} cannot be started: {error.strerror}"
            raise ConfigError(f"{why}; give a file with the prompt, or go on later with another {variable}") from None
        if code:
            raise ConfigError(f"{variable}={named} has ended with code {code}; give a file, or try again")
        return _read_prompt(file)


def _get_user() -> str:
    try:
        return getpass.getuser()[:64] or "a person"
    except (OSError, KeyError):  # a container may know no name for the user
        return "a person"
