"""Pages with tables that are computed from rows of results; `claims` holds their text to them.

A table of a Markdown page stands between two comments; paths are relative to the page:

    <!-- table: systems rows=rows/compare-archive.jsonl against=single -->
    <!-- end of table -->

    systems     scores and costs of a comparison over the seeds in `rows`, as `keep_scores` writes them
    methods     systems over the seeds in `rows`: each before, after, with its control, votes at its price, beside
                others, and its price
    kinds       scores of `systems=A,B` by kind of task, over all seeds in `rows`
    votes       systems over the seeds in `rows`, each beside the votes at its price; `systems=A,B` names some of them
    paired      differences of a comparison's systems from one of them, `against`
    scores      comparisons side by side: `against=NAME`, `systems=A,B` (all), `costs=yes`, and `TITLE=FILE` for each
    evolutions  what an iteration of a comparison's evolutions costs: `iterations=N`, and `TITLE=FILE` for each
    ablation    a study, `rows` as `keep_study` writes them
    studies     studies of several methods on the same tasks, `rows=A,B`, beside `against=METHOD/VARIANT`;
                `systems=` names some of them
    world       a world's tables: `method`, `name`, `rows`
    claims      what the mechanisms of all worlds on the page are worth
    proof       a section of `selfwire prove`: `rows` as it writes them, and `part`, `summary` or a benchmark's number
    cells       a table of `make bench`, `rows` as `--keep` writes them: JSON with a text for each column
    code        which code has made the rows of each file in the folder `rows`
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from selfwire.core.errors import ConfigError
from selfwire.evals.statistics import compute_score_interval
from selfwire.evals.table import (
    TRIVIAL,
    Column,
    KeptHead,
    ResultTable,
    SeedSummary,
    SystemSummary,
    build_table,
    expect_rows,
    format_difference,
    list_seed_columns,
    read_kept_runs,
    summarise_seeds,
    write_lines,
)
from selfwire.extras.lab.ablation.plan import WorldStudy
from selfwire.extras.lab.ablation.rows import HEAD, make_head, read_study
from selfwire.extras.lab.ablation.table import build_comparison
from selfwire.extras.lab.ablation.table import build_table as build_study_table
from selfwire.extras.lab.code_version import CodeVersion
from selfwire.extras.lab.worlds.catalogue import World, load_world
from selfwire.extras.lab.worlds.gains import Claim, WorldResult, list_claim_columns
from selfwire.runs.proof import list_sections, read_proof
from selfwire.runs.votes import ONE, build_votes_table, get_votes, is_of_votes

END = "<!-- end of table -->"
TABLE = re.compile(rf"(<!-- table: (\w+) ?([^\n]*?) ?-->\n)(.*?)({re.escape(END)})", re.DOTALL)
CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
T = TypeVar("T")


@dataclass(frozen=True)
class Mismatch:
    """A fault of a page: tables that differ from their rows."""

    page: Path
    where: str
    text: str


def keep_world(about: WorldStudy, results: Sequence[WorldResult], out: Path) -> None:
    """Write the figures of a world below its head, a line per seed, with six digits.

    Raises:
        ConfigError: they cannot be written.
    """
    rounded = [
        result.replace(
            figures={name: {key: round(x, 6) for key, x in row.items()} for name, row in result.figures.items()}
        )
        for result in results
    ]
    write_lines((line.model_dump_json() for line in (make_head(about), *rounded)), out, "rows")


def check_pages(pages: Sequence[Path]) -> list[Mismatch]:
    """Tables on the pages that differ from what their rows give.

    Raises:
        ConfigError: a page, its rows or a comment on it cannot be used.
    """
    found: list[Mismatch] = []
    for page in pages:
        text, filled = read_page(page), fill_page(page)
        if text != filled:
            lines = difflib.unified_diff(text.splitlines(), filled.splitlines(), "page", "rows", lineterm="", n=0)
            found.append(Mismatch(page, "tables", "\n".join(lines)))
    return found


def fill_page(page: Path) -> str:
    """The page's text with its tables computed anew.

    Raises:
        ConfigError: as `check_pages`.
    """
    text = read_page(page)
    if _drop_code(text).count("<!-- table:") != len(TABLE.findall(_drop_code(text))):
        raise ConfigError(f"{page}: a table has no end; close it with {END}")

    def fill(match: re.Match[str]) -> str:
        start, kind, options, _, end = match.groups()
        given = dict(part.split("=", 1) for part in options.split() if "=" in part)
        if kind not in TABLES:
            raise ConfigError(f"{page}: there is no kind of table {kind!r}; choose {', '.join(TABLES)}")
        try:
            return f"{start}{TABLES[kind](page, given).strip()}\n{end}"
        except KeyError as error:
            raise ConfigError(f"{page}: the table {kind} {options} lacks {error}") from None

    return "".join(part if part.startswith("```") else TABLE.sub(fill, part) for part in CODE.split(text))


def _drop_code(text: str) -> str:
    return CODE.sub("", text)


def read_page(page: Path) -> str:
    """The text of a page.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"the page {page} cannot be read: {why}; name pages that are there") from None


def _read_seeds(path: Path) -> list[dict[str, SystemSummary]]:
    """Read the systems of each seed of a file; runs of one seed, such as votes, join theirs on the same tasks."""
    heads, seeds = dict[int, KeptHead](), dict[int, dict[str, SystemSummary]]()
    first: KeptHead | None = None
    for head, lines in read_kept_runs(path):
        first = first or head
        voting = all(line.info.name == TRIVIAL or is_of_votes(line.info.name) for line in lines)
        for what in ("benchmark", "model", *(() if voting else ("calls_per_task",))):
            if getattr(head, what) != getattr(first, what):
                raise ConfigError(f"{path} holds runs of {what} {getattr(first, what)} and {getattr(head, what)}")
        whole, own = seeds.setdefault(head.seed, {}), {line.info.name: line for line in lines}
        if heads.setdefault(head.seed, head).tasks != head.tasks:
            raise ConfigError(f"{path} holds runs of seed {head.seed} on different tasks")
        if twice := sorted(whole.keys() & own.keys() - {TRIVIAL}):
            raise ConfigError(f"{path} holds two runs of {twice[0]} with seed {head.seed}; keep one of each")
        whole.update({name: line for name, line in own.items() if name not in whole})
    named = [[name for name in lines if not is_of_votes(name)] for lines in seeds.values()]
    for seed, names in zip(seeds, named, strict=True):
        if names != named[0]:
            raise ConfigError(f"{path} holds runs of different systems, in seeds {next(iter(seeds))} and {seed}")
    return [*seeds.values()]


def _summarise(path: Path, against: str) -> tuple[SeedSummary, ...]:
    """Sum up the systems of a file over its seeds, without votes, whose number differs by seed."""
    seeds = [[line for name, line in lines.items() if not is_of_votes(name)] for lines in _read_seeds(path)]
    if any(not lines or lines[-1].info.name == TRIVIAL for lines in seeds):
        raise ConfigError(f"{path} holds votes alone; keep the results of their comparison with them")
    return summarise_seeds(seeds, against)


def _format_votes(page: Path, given: Mapping[str, str]) -> str:
    names = given["systems"].split(",") if "systems" in given else ()
    return build_votes_table(_read_seeds(page.parent / given["rows"]), names).markdown


def _format_systems(page: Path, given: Mapping[str, str]) -> str:
    return build_table(list_seed_columns(), _summarise(page.parent / given["rows"], given["against"])).markdown


def _format_paired(page: Path, given: Mapping[str, str]) -> str:
    found = _summarise(page.parent / given["rows"], given["against"])
    title = f"difference from {found[0].others[0].name} [95 %]"
    columns: tuple[Column[SeedSummary], ...] = (
        Column("system", lambda line: line.name),
        Column(title, lambda line: format_difference(line.difference)),
    )
    return build_table(columns, [line for line in found if line.lines != line.others]).markdown


def _format_scores(page: Path, given: Mapping[str, str]) -> str:
    files = {title: file for title, file in given.items() if title not in ("against", "systems", "costs")}
    costs = ("calls/task", "evolution") if "costs" in given else ()
    columns: list[Column[str]] = [Column("system", lambda name: name)]
    names = given["systems"].split(",") if "systems" in given else []
    for title, file in files.items():
        found = _summarise(page.parent / file, given["against"])
        by_name = {line.info.name: line for line in found}
        shown = {"score [95 %]": "score [95 %]", "difference [95 %]": f"from {found[0].others[0].name}"}
        shown |= {cost: cost for cost in costs}
        names = names or [*by_name]
        columns += [
            Column(f"{title}: {shown[column.name]}", partial(_format_named, column, by_name))
            for column in list_seed_columns()
            if column.name in shown
        ]
    return build_table(columns, names).markdown


def _format_named(column: Column[T], lines: Mapping[str, T], name: str) -> str:
    return column.format(lines[name])


def _format_evolutions(page: Path, given: Mapping[str, str]) -> str:
    files = {title: file for title, file in given.items() if title != "iterations"}
    found = {
        title: {line.name: line for line in _summarise(page.parent / file, "") if line.evolutions}
        for title, file in files.items()
    }

    def share(title: str, field: str, name: str) -> str:
        if name not in found[title]:
            return "-"
        spent = [getattr(usage, field) for usage in found[title][name].evolutions]
        return f"{fmean(spent) / int(given['iterations']):,.0f}"

    columns = [Column[str]("", str)]
    for title in files:
        columns += [Column(f"{title}: {field}", partial(share, title, field)) for field in ("calls", "tokens")]
    return build_table(columns, [*next(iter(found.values()))]).markdown


BEFORE, CONTROL = "-before", "-control"
"""Ends of the names of systems that stand in the row of another: its seed team, and its control."""


def _format_methods(page: Path, given: Mapping[str, str]) -> str:
    systems = {found.info.name: found for found in _summarise(page.parent / given["rows"], "")}
    named = [name for name in systems if not name.endswith((BEFORE, CONTROL))]
    seeds = _read_seeds(page.parent / given["rows"])
    votes = {
        name: SeedSummary(tuple(get_votes(lines, name) for lines in seeds), systems[name].lines)
        for name in named
        if systems[name].whole.spend.calls and all(ONE in lines for lines in seeds)
    }

    def show(end: str) -> Callable[[str], str]:
        return lambda name: str(systems[name + end].score or "-") if name + end in systems else "-"

    def differ(find_other: Callable[[str], str]) -> Callable[[str], str]:
        def format_gain(name: str) -> str:
            other = systems.get(find_other(name))
            return format_difference(SeedSummary(systems[name].lines, other.lines).difference if other else None)

        return format_gain

    priced = [column for column in list_seed_columns() if column.name in ("cut", "calls/task", "tokens/task")]
    columns = (
        Column[str]("system", lambda name: systems[name].name),
        Column("before", show(BEFORE)),
        Column("score [95 %]", show("")),
        Column("control", show(CONTROL)),
        Column("votes at its price", lambda name: str(votes[name].score) if name in votes else "-"),
        Column("calls of votes", lambda name: f"{votes[name].whole.calls_per_task:.1f}" if name in votes else "-"),
        Column("from before", differ(lambda name: name + BEFORE)),
        Column("from control", differ(lambda name: name + CONTROL)),
        *(Column(f"from {other}", differ(lambda _, other=other: other)) for other in given["beside"].split(",")),  # type: ignore[misc]
        *(Column(column.name, partial(_format_named, column, systems)) for column in priced),
    )
    return build_table(columns, named).markdown


def _format_ablation(page: Path, given: Mapping[str, str]) -> str:
    return build_study_table(*read_study(page.parent / given["rows"]))


def _format_studies(page: Path, given: Mapping[str, str]) -> str:
    studies = [read_study(page.parent / path) for path in given["rows"].split(",")]
    return build_comparison(studies, given["against"], given["systems"].split(",") if "systems" in given else ())


def _read_world(page: Path, given: Mapping[str, str]) -> tuple[World, list[WorldResult]]:
    path = page.parent / given["rows"]
    with expect_rows(path, "rows of a world", "`selfwire ablate --world NAME --keep` writes them"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(HEAD)]
        rows = [WorldResult.model_validate_json(line) for line in lines]
    return load_world(given["method"], given["name"]), rows


def _format_world(page: Path, given: Mapping[str, str]) -> str:
    world, rows = _read_world(page, given)
    return world.format_tables(rows)


def _format_claims(page: Path, given: Mapping[str, str]) -> str:
    head: tuple[str, ...] = ()
    cells: list[tuple[str, ...]] = []
    listed = [match[3] for match in TABLE.finditer(_drop_code(read_page(page))) if match[2] == "world"]
    worlds = [dict(part.split("=", 1) for part in options.split()) for options in listed]
    comparisons = sum(len(load_world(shown["method"], shown["name"]).claims) for shown in worlds)
    for options in worlds:
        world, rows = _read_world(page, options)
        columns: tuple[Column[Claim], ...] = list_claim_columns(rows, comparisons)
        head = ("world", *(column.name for column in columns))
        name = f"{options['method']}, {options['name']}"
        cells += [(name, *(column.format(claim) for column in columns)) for claim in world.claims]
    kept = [at for at in range(len(head)) if any(row[at] != "-" for row in cells)]
    first, *rest = (tuple(row[at] for at in kept) for row in (head, *cells))
    return ResultTable(first, tuple(rest)).markdown


def _format_cells(page: Path, given: Mapping[str, str]) -> str:
    path = page.parent / given["rows"]
    with expect_rows(path, "table", "`make bench` with --keep writes such files"):
        lines = [line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if "code" not in line]
        return ResultTable(tuple(lines[0]), tuple(tuple(line[name] for name in lines[0]) for line in lines)).markdown


def _format_code(page: Path, given: Mapping[str, str]) -> str:
    columns: tuple[Column[Path], ...] = (
        Column("rows", lambda path: f"`{path.name}`"),
        Column("code", lambda path: "; ".join(dict.fromkeys(map(str, _list_code_versions(path))))),
    )
    return build_table(columns, sorted((page.parent / given["rows"]).glob("*.jsonl"))).markdown


def _list_code_versions(path: Path) -> list[CodeVersion]:
    """List the code of each head of a file of rows: of its runs, its study, its world or its table."""
    with expect_rows(path, "rows", "name a folder of rows"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        heads = [line for line in lines if "code" in line]
        named = [CodeVersion(**{name: head.get(name, "") for name in CodeVersion.model_fields}) for head in heads]
        return named or [CodeVersion()]


def _format_kinds(page: Path, given: Mapping[str, str]) -> str:
    path = page.parent / given["rows"]
    heads = [head for head, _ in read_kept_runs(path)]
    by_seed = {head.seed: head for head in heads}  # runs of a seed have the same tasks
    if not all(head.kinds for head in heads):
        raise ConfigError(f"{path} does not name the kinds of its tasks; `selfwire results --keep` writes them today")
    by_task = {task: kind for head in heads for task, kind in zip(head.tasks, head.kinds, strict=True)}
    seeds, names = _read_seeds(path), given["systems"].split(",")

    def list_scores(name: str, kind: str) -> list[float]:
        scores = [pair for lines in seeds for pair in lines[name].scores.items()]
        return [score for task, score in scores if score is not None and by_task[task] == kind]

    columns = [Column[str]("system", str)]
    for kind in sorted({*by_task.values()}):
        title = f"{kind}, {sum(head.kinds.count(kind) for head in by_seed.values())} tasks [95 %]"
        columns.append(Column(title, lambda name, kind=kind: str(compute_score_interval(list_scores(name, kind)))))  # type: ignore[misc]
    return build_table(columns, names).markdown


def _format_proof(page: Path, given: Mapping[str, str]) -> str:
    return list_sections(read_proof(page.parent / given["rows"]))[given["part"]]


TABLES: Mapping[str, Callable[[Path, Mapping[str, str]], str]] = {
    "systems": _format_systems,
    "methods": _format_methods,
    "votes": _format_votes,
    "paired": _format_paired,
    "scores": _format_scores,
    "evolutions": _format_evolutions,
    "ablation": _format_ablation,
    "studies": _format_studies,
    "world": _format_world,
    "claims": _format_claims,
    "proof": _format_proof,
    "cells": _format_cells,
    "kinds": _format_kinds,
    "code": _format_code,
}
