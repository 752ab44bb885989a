"""Proofs: comparisons of systems over benchmarks and seeds at equal price, judged together; their rows and their page.

A proof is a row of ordinary comparisons: for each seed and benchmark all systems, and then votes of a single agent that
reasons, as many as the price of each system pays for. Everything on the page is computed from the rows that are kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import LIBRARIES, compute_code_hash, own_methods
from selfwire.core.text import mask_secrets
from selfwire.core.values import FrozenModel, fingerprint, format_count
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.statistics import are_equal
from selfwire.evals.table import (
    Column,
    KeptHead,
    ResultTable,
    SeedSummary,
    SystemSummary,
    build_table,
    expect_rows,
    format_difference,
    list_seed_columns,
    parse_kept_lines,
    write_lines,
)
from selfwire.evals.verdicts import ERROR, ComparisonVerdict, average_differences, find_visible_gain, judge_differences
from selfwire.runs.evaluation import load_request_tasks
from selfwire.runs.record import ContaminatedTasks, compute_config_hash, shorten_name
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from selfwire.runs.votes import BEST_OF, count_answers, get_votes, refuse_names_of_votes

DIRECT, VOTER = "direct", "cot"
"""The reference, a single call; and the baseline whose votes are the best of k, as it reasons before it answers."""
ALWAYS = (DIRECT, VOTER)
"""Baselines that take part in every proof, with one answer each."""
USUAL_SYSTEMS = (*own_methods(), "self-refine", "centralised", *LIBRARIES)
PAGE, KEPT = "prove.md", "prove.jsonl"
"""Names of the page and of the rows."""


class ProofHead(FrozenModel):
    """The first line of the rows of a proof.

    Args:
        proof: its name.
        systems: names of those that are judged, in the order of the tables.
        seeds: of the comparisons.
        command: that made it.
        notes: what a reader should know.
    """

    proof: str
    systems: tuple[str, ...]
    seeds: tuple[int, ...]
    command: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProofPart:
    """The results of a seed on a benchmark: of the systems, and of the votes at their price."""

    head: KeptHead
    lines: Mapping[str, SystemSummary]

    def get_votes(self, system: str) -> SystemSummary:
        """Get the votes that cost as much as a system; a single answer where its price pays for no more.

        Raises:
            KeyError: they were not measured.
        """
        return get_votes(self.lines, system, VOTER)


@dataclass(frozen=True)
class Proof:
    """A proof, or the parts of it that are finished."""

    head: ProofHead
    parts: tuple[ProofPart, ...]

    @cached_property
    def by_benchmark(self) -> dict[str, list[ProofPart]]:
        """The parts of each benchmark, by seed."""
        found: dict[str, list[ProofPart]] = {}
        for part in self.parts:
            found.setdefault(part.head.benchmark, []).append(part)
        return found

    @cached_property
    def verdicts(self) -> dict[tuple[str, str, str], ComparisonVerdict]:
        """Verdicts by benchmark, system and what it is compared with: `DIRECT` or `BEST_OF`; one family."""
        found = {}
        for benchmark, parts in self.by_benchmark.items():
            for system in self.head.systems:
                lines = [part.lines[system] for part in parts]
                direct = [part.lines[DIRECT] for part in parts]
                found[benchmark, system, DIRECT] = average_differences(lines, direct)
                if system != VOTER:
                    votes = [part.get_votes(system) for part in parts]
                    found[benchmark, system, BEST_OF] = average_differences(lines, votes)
        return judge_differences(found)


def choose_systems(named: str) -> tuple[list[str], str]:
    """Split the names of systems at commas, or take the usual ones; return them, and a note on one that is left out."""
    if named:
        return [name.strip() for name in named.split(",") if name.strip()], ""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    notes = [f"{name} is left out: it is not installed; pip install 'selfwire[{name}]' adds it" for name in missing]
    return [name for name in USUAL_SYSTEMS if name not in missing], "; ".join(notes)


def choose_benchmarks() -> tuple[tuple[str, ...], str]:
    """Choose HotpotQA with its paragraphs and GSM8K: the whole set of the Hub, else the sample; and say which."""
    full, sample = "hotpotqa:full", "hotpotqa:paragraphs"
    try:
        load_benchmark(full).splits(0, train=1, gate=1, test=1)
    except ConfigError as error:
        return (sample, "gsm8k"), f"100 questions of HotpotQA are used, as the whole set cannot be read: {error}"
    return (full, "gsm8k"), "the whole validation set of HotpotQA is used"


def make_entries(systems: Sequence[SystemSpec]) -> tuple[SystemSpec, ...]:
    """Put the single answers of `ALWAYS` before the systems.

    Raises:
        ConfigError: a system has the name of one of these, or of votes; or there is none.
    """
    others = [entry for entry in systems if entry.target not in ALWAYS]
    for entry in others:
        if entry.name in ALWAYS:
            raise ConfigError(f"{entry.name!r} is the name of a baseline of every proof; give the system another")
    refuse_names_of_votes(entry.name for entry in others)
    if not others:
        raise ConfigError(f"a proof needs a system beside {' and '.join(ALWAYS)}; name some with --systems")
    singles = (SystemSpec(name=name, target=name) for name in ALWAYS)
    return (*singles, *others)


def name_proof(requests: Sequence[EvaluateSpec]) -> str:
    """Name a proof by its requests and the code, so that the same command finds what it has begun, with any budget."""
    return f"prove-{fingerprint([*map(compute_config_hash, requests), compute_code_hash()])[:6]}"


def name_run(proof: str, request: EvaluateSpec, number: int, *, votes: bool = False) -> str:
    """Name the run of a seed on a benchmark.

    Args:
        number: of the benchmark, from 1 on, as files in several folders may be called alike.
    """
    return f"{proof}-{number}-{shorten_name(request.benchmark)}-s{request.seed}{'-votes' if votes else ''}"


def describe_visible_gains(requests: Sequence[EvaluateSpec], seeds: int) -> Iterator[str]:
    """Describe, a line per benchmark, how small a gain the tasks of all seeds can show before it is known how they lie.

    Raises:
        ConfigError: a seed has too few tasks.
    """
    # each system with a single answer, and all but the voter with votes
    comparisons = sum(2 * (len(request.entries) - 1) - 1 for request in requests)
    for request in requests:
        tasks = {
            task.id
            for seed in range(request.seed, request.seed + seeds)
            for task in load_request_tasks(request.replace(seed=seed), ContaminatedTasks())[1]
        }
        gain = find_visible_gain(len(tasks), ERROR / comparisons)
        said = "no gain can be seen" if gain is None else f"a gain of {gain:.2f} is seen in 4 of 5 cases"
        yield (
            f"{request.benchmark}: with {format_count(len(tasks), 'task')} of {format_count(seeds, 'seed')} and "
            f"{format_count(comparisons, 'comparison')} {said}, if systems differ on half of the tasks"
        )


def write_rows(head: ProofHead, parts: Iterable[Sequence[str]], path: Path) -> None:
    """Write the rows of a proof.

    Args:
        parts: kept lines of the runs, as `list_kept_lines` makes them.

    Raises:
        ConfigError: they cannot be written.
    """
    write_lines([head.model_dump_json(exclude_defaults=True), *(line for part in parts for line in part)], path, "rows")


def read_proof(path: Path) -> Proof:
    """Read the rows of a proof.

    Raises:
        ConfigError: they cannot be read, or are none.
    """
    with expect_rows(path, "rows of a proof", "`selfwire prove` writes such files"):
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        head, parts = ProofHead.model_validate_json(first), dict[tuple[str, int], ProofPart]()
        for run, systems in parse_kept_lines(rest):
            before = parts.get((run.benchmark, run.seed), ProofPart(run, {}))
            lines = {**before.lines, **{system.info.name: system for system in systems}}
            parts[run.benchmark, run.seed] = ProofPart(before.head, lines)
        proof = Proof(head, tuple(parts.values()))
        assert proof.verdicts is not None  # computed here, so that systems without rows are found
        return proof


def build_proof_table(proof: Proof, benchmark: str) -> ResultTable:
    """Make the table of a benchmark: a row per system, and below it the votes at its price."""
    parts = proof.by_benchmark[benchmark]
    direct = tuple(part.lines[DIRECT] for part in parts)
    rows = list[tuple[str, SeedSummary]]()
    for system in (DIRECT, *proof.head.systems):
        rows.append((system, SeedSummary(tuple(part.lines[system] for part in parts), direct)))
        if system not in ALWAYS:
            votes = tuple(part.get_votes(system) for part in parts)
            counts = ", ".join(map(count_answers, votes))
            rows.append((f"best of {counts}, the price of {system}", SeedSummary(votes, direct)))

    def verdict(kind: str) -> Column[tuple[str, SeedSummary]]:
        def format_verdict(row: tuple[str, SeedSummary]) -> str:
            found = proof.verdicts.get((benchmark, row[0], kind))
            if found is None or found.difference is None:
                return "-"
            against = direct if kind == DIRECT else tuple(part.get_votes(row[0]) for part in parts)
            seeds = _describe_seeds(SeedSummary(row[1].lines, against), found)
            return f"{format_difference(found.difference)} {found}{seeds}"

        return Column(f"from {'direct' if kind == DIRECT else 'best of k'}", format_verdict, silent="-")

    own = ("system", "difference", "score", "solved", "S")
    shown = [column for column in list_seed_columns() if not column.name.startswith(own)]
    columns = (
        Column[tuple[str, SeedSummary]]("system", lambda row: row[0]),
        Column("score [95 %]", lambda row: str(row[1].score or "-")),
        verdict(DIRECT),
        verdict(BEST_OF),
        *(Column(c.name, lambda row, c=c: c.format(row[1]), c.silent) for c in shown),  # type: ignore[misc]
    )
    return build_table(columns, rows)


def _describe_seeds(found: SeedSummary, verdict: ComparisonVerdict) -> str:
    """Say of an evolved system whose verdict its seeds do not bear out that it holds for these evolutions."""
    evolved = any(line.info.evolution for line in found.lines)
    over = None if are_equal(found.differences) else found.difference
    if verdict.says == "not told apart" or not evolved or (over and not over.low <= 0 <= over.high):
        return ""
    return f", for {'this evolution' if len(found.lines) == 1 else f'these {len(found.lines)} evolutions'}"


def list_sections(proof: Proof) -> dict[str, str]:
    """List what a page says of its rows: `summary`, and for each benchmark its number, from 1 on, and its section."""
    head = proof.head
    models = ", ".join(dict.fromkeys(part.head.model for part in proof.parts))
    verdicts = proof.verdicts.values()
    counts = ", ".join(f"{sum(found.says == says for found in verdicts)} {says}" for says in ("better", "worse"))
    whole = len(head.seeds) * len(proof.by_benchmark)
    summary = (
        f"# What systems are worth with {models}",
        f"`{mask_secrets(head.command)}`" if head.command else "",
        f"Proof {head.proof}: {len(proof.parts)} of {whole} parts are finished. Of {len(verdicts)} comparisons "
        f"{counts}.",
    )
    sections = {"summary": "\n\n".join(filter(None, summary))}
    for number, (benchmark, parts) in enumerate(proof.by_benchmark.items(), 1):
        tasks = len({task for part in parts for task in part.head.tasks})
        seeds = ", ".join(str(part.head.seed) for part in parts)
        sections[str(number)] = (
            f"## {shorten_name(benchmark) if '/' in benchmark else benchmark}\n\n"
            f"{format_count(tasks, 'task')}, seeds {seeds}, at most {parts[0].head.calls_per_task} calls per task.\n\n"
            f"{build_proof_table(proof, benchmark).markdown}"
        )
    return sections


def format_page(proof: Proof) -> str:
    """Format the page, whose sections `selfwire results --check` makes anew from the rows beside it."""
    taking_part = [line.info for part in proof.parts for line in part.lines.values()]
    untrained = any(system.method == "evomas" and not system.version and not system.learned for system in taking_part)
    notes = (*NOTES, *([UNTRAINED] if untrained else []), *proof.head.notes)
    sections = (
        f"<!-- table: proof rows={KEPT} part={name} -->\n{text}\n<!-- end of table -->"
        for name, text in list_sections(proof).items()
    )
    return "\n\n".join((*sections, "## How to read it", "\n".join(f"- {note}" for note in notes))) + "\n"


NOTES = (
    "A verdict is about the mean difference over the tasks, for the teams that were measured. The chance that any "
    f"verdict of this page is false is at most {ERROR:g}: evidence by betting, and Holm's correction over all "
    "comparisons.",
    "The interval beside a verdict has the error that Holm's procedure leaves for it. A task that several seeds have "
    "drawn counts once, with the mean of its differences. A task that ends as an error for the system alone counts as "
    "wrong; scores and their intervals leave errors out.",
    "The interval of a score is over seeds, Student's, each with tasks and evolutions of its own; with one seed, or "
    'with equal scores in all, it is over tasks. A verdict with the words "for these evolutions" is not borne out by '
    "the 95 % interval over seeds: another evolution may do otherwise.",
    '`direct` and `cot` are one call. "Best of k" is a vote over k answers of `cot`. For each seed k is the number of '
    "answers that costs as much as the system's, rounded up: in dollars where prices are known, else in tokens. What "
    "an evolution costs has its own column and is not in k.",
)
"""What holds for every page."""
UNTRAINED = (
    "EvoMAS takes part with an untrained router; `selfwire train evomas` trains one, and its team can take part by "
    "name."
)


def summarise_proof(proof: Proof) -> list[dict[str, object]]:
    """List the verdicts as values for JSON."""
    return [
        {
            "benchmark": benchmark,
            "system": system,
            "against": DIRECT if kind == DIRECT else "best of k",
            "says": verdict.says,
            "difference": verdict.difference,
            "visible": verdict.visible,
            "score": fmean(
                line.score or 0.0 for part in proof.by_benchmark[benchmark] for line in [part.lines[system]]
            ),
        }
        for (benchmark, system, kind), verdict in proof.verdicts.items()
    ]
