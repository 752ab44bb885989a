"""The commands on the page of results are those that made the rows of its tables."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "results.md"
SIZES = {"--train": "train", "--gate-size": "gate", "--test": "test"}
FIELDS = {"--iterations": "iterations", "--batch": "batch", "--gate-tasks": "gate_tasks", "--benchmark": "benchmark"}


def list_commands() -> Iterator[tuple[str, list[Path]]]:
    """Commands with the files of rows in their section."""
    for section in re.split(r"^(?=#+ )", PAGE.read_text(), flags=re.MULTILINE):
        marks = re.findall(r"<!-- table: (?!code)[^>]*-->", section)
        files = [PAGE.parent / name for name in dict.fromkeys(re.findall(r"rows/[\w-]+\.jsonl", " ".join(marks)))]
        for command in re.findall(r"`selfwire (ablate [^`]*)`", section):
            yield " ".join(command.replace(",\n", ",").split()), files


def read_rows(file: Path) -> tuple[Mapping[str, Any], int]:
    """What a study was about, nothing of a world, and how many seeds its rows have."""
    rows = [json.loads(line) for line in file.read_text().splitlines() if line]
    return rows[0].get("head", {}), len({row["seed"] for row in rows if "seed" in row})


COMMANDS = [(command, files) for command, files in list_commands() if files and "--world" not in command]
WORLDS = [(command, files) for command, files in list_commands() if "--world" in command and "--seeds" in command]


@pytest.mark.parametrize(("command", "files"), COMMANDS, ids=lambda given: given if isinstance(given, str) else "")
def test_a_command_has_the_sizes_of_its_rows(command: str, files: list[Path]) -> None:
    method, options = command.split()[1], dict(re.findall(r"(--[\w-]+) (\S+)", command))
    made = {file.stem: found for file in files if (found := read_rows(file))[0].get("method") == method}
    wanted = {name: options.pop(name) for name in ("--seeds", "--variants") if name in options}
    options.pop("--set", None)
    heads = [
        (head, seeds)
        for head, seeds in made.values()
        if {*wanted["--variants"].split(",")} - {*head["settings"]} == {*head["variants"]} - {*head["settings"]}
    ]
    assert heads, f"none of {', '.join(made)} has these variants"
    for head, seeds in heads:
        said = {name: head["sizes"][SIZES[name]] if name in SIZES else head[FIELDS[name]] for name in options}
        assert {name: str(value) for name, value in said.items()} == options
        assert str(seeds) == wanted["--seeds"]


@pytest.mark.parametrize(("command", "files"), WORLDS, ids=lambda given: given if isinstance(given, str) else "")
def test_a_world_has_as_many_seeds_as_its_command(command: str, files: list[Path]) -> None:
    [(name, seeds)] = re.findall(r"--world ([\w-]+) --seeds (\d+)", command)
    [found] = {read_rows(file)[1] for file in files if name in file.stem}
    assert found == int(seeds)
