"""Proofs: votes at a system's price, rows that are read again, and what the page says of a few tasks."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from selfwire.cli.compare import Evolutions
from selfwire.core.errors import ConfigError
from selfwire.core.usage import Usage
from selfwire.evals.benchmarks.benchmark import TooFewTasksError
from selfwire.evals.table import KeptHead, KeptSystem, SystemInfo
from selfwire.extras.lab.result_pages import check_pages
from selfwire.runs import proof
from selfwire.runs.estimates import estimate_proof
from selfwire.runs.proof import (
    ProofHead,
    build_proof_table,
    choose_benchmarks,
    choose_systems,
    format_page,
    make_entries,
    read_proof,
    summarise_proof,
    write_rows,
)
from selfwire.runs.spec import EvaluateSpec, PreEvolutionSpec, SystemSpec

TASKS = tuple(f"t{number}" for number in range(40))
HEAD = ProofHead(proof="prove-1", systems=("cot", "mine"), seeds=(0, 1))


def kept(
    name: str,
    scores: Sequence[float | None],
    tokens: int,
    dollars: float | None = 0.0,
    evolved: int = 0,
    method: str = "",
) -> str:
    cost = Usage(calls=evolved) if evolved else None
    return KeptSystem(
        info=SystemInfo(name=name, target=name, method=method, workflow="", learned=bool(evolved), evolution=cost),
        scores=tuple(scores),
        calls=(1,) * len(scores),
        tokens=((tokens, 0),) * len(scores),
        dollars=() if dollars == 0 else (dollars,) * len(scores),
    ).model_dump_json(exclude_defaults=True)


def part(seed: int, mine: Sequence[float], evolved: int = 0, method: str = "") -> list[str]:
    names = tuple(f"{seed} {task}" for task in TASKS)
    head = KeptHead(benchmark="b", model="m", seed=seed, calls_per_task=9, code="c", tasks=names)
    single = [kept(name, [0.0] * 40, 100) for name in ("trivial", "direct", "cot")]
    votes = [head.model_dump_json(), kept("best-of-3", [1.0] * 20 + [0.0] * 20, 300)]
    return [head.model_dump_json(), *single, kept("mine", mine, 250, evolved=evolved, method=method), *votes]


def test_rows_are_read_again_and_the_page_says_what_they_show(tmp_path: Path) -> None:
    write_rows(
        HEAD, [part(0, [1.0] * 40, evolved=9), part(1, [1.0] * 20 + [0.0] * 20, evolved=9)], tmp_path / "r.jsonl"
    )
    found = read_proof(tmp_path / "r.jsonl")
    said = {(line["system"], line["against"]): line["says"] for line in summarise_proof(found)}
    assert said == {("cot", "direct"): "not told apart", ("mine", "direct"): "better", ("mine", "best of k"): "better"}
    table = build_proof_table(found, "b")
    assert [row[0] for row in table.rows] == ["direct", "cot", "mine", "best of 3, 3, the price of mine"]
    cells = dict(zip(table.head, table.rows[2], strict=True))
    assert cells["from direct"].startswith("+0.75 [")
    assert cells["from best of k"].endswith("better, for these 2 evolutions")  # one of the two alone has a gain
    page = format_page(found)
    assert "2 of 2 parts are finished. Of 3 comparisons 2 better, 0 worse." in page
    assert "80 tasks, seeds 0, 1" in page


@pytest.mark.parametrize(
    ("right", "wrong"), [("2 better", "3 better"), ("with m\n", "with n\n"), ("seeds 0, 1", "seeds 0, 1, 2")]
)
def test_a_sentence_of_a_page_that_its_rows_do_not_bear_out_is_found(tmp_path: Path, right: str, wrong: str) -> None:
    write_rows(HEAD, [part(0, [1.0] * 40), part(1, [1.0] * 20 + [0.0] * 20)], tmp_path / proof.KEPT)
    page = tmp_path / proof.PAGE
    page.write_text(format_page(read_proof(tmp_path / proof.KEPT)))
    assert check_pages([page]) == []
    page.write_text(page.read_text().replace(right, wrong))
    [found] = check_pages([page])
    assert wrong.strip() in found.text


def test_a_verdict_of_a_single_evolution_says_that_it_is_one(tmp_path: Path) -> None:
    write_rows(HEAD, [part(0, [1.0] * 40, evolved=9)], tmp_path / "r.jsonl")
    table = build_proof_table(read_proof(tmp_path / "r.jsonl"), "b")
    cells = dict(zip(table.head, table.rows[2], strict=True))
    assert cells["from best of k"].endswith("better, for this evolution")


@pytest.mark.parametrize(("method", "evolved", "told"), [("evomas", 0, 1), ("evomas", 9, 0), ("hiva", 0, 0)])
def test_a_page_speaks_of_an_untrained_router_only_where_one_takes_part(
    tmp_path: Path, method: str, evolved: int, told: int
) -> None:
    write_rows(HEAD, [part(0, [1.0] * 40, evolved=evolved, method=method)], tmp_path / "r.jsonl")
    assert format_page(read_proof(tmp_path / "r.jsonl")).count("an untrained router") == told


def test_rows_without_votes_or_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_rows(HEAD, [part(0, [1.0] * 40)[:5]], path)
    with pytest.raises(ConfigError, match=r"holds no rows of a proof: KeyError\('best-of-3'\)"):
        read_proof(path)
    path.write_text(json.dumps({"other": 1}))
    with pytest.raises(ConfigError, match="`selfwire prove` writes such files"):
        read_proof(path)


def test_a_library_that_is_not_installed_is_left_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gepa" in choose_systems("")[0]
    monkeypatch.setattr(proof, "find_spec", lambda name: None)
    names, note = choose_systems("")
    assert "gepa" not in names
    assert note == "gepa is left out: it is not installed; pip install 'selfwire[gepa]' adds it"
    assert choose_systems(" hiva, mine.graph:app ") == (["hiva", "mine.graph:app"], "")


def test_the_sample_is_used_where_the_whole_set_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise TooFewTasksError(f"{name} is not here")

    monkeypatch.setattr(proof, "load_benchmark", refuse)
    names, note = choose_benchmarks()
    assert names == ("hotpotqa:paragraphs", "gsm8k")
    assert note.endswith("as the whole set cannot be read: hotpotqa:full is not here")


def test_every_method_that_learns_is_evolved_by_a_proof_and_its_dry_run_counts_that() -> None:
    entries = make_entries([SystemSpec(name=name, target=name) for name in ("evomas", "hiva", "dytopo")])
    evolving = Evolutions(iterations=2, batch=4, train=8, gate_size=8).among(entries)
    assert evolving is not None
    assert evolving.names == ("evomas", "hiva")
    learner = make_entries([SystemSpec(name="evomas", target="evomas")])
    sized = PreEvolutionSpec(names=("evomas",), iterations=2, batch=4, train=8, gate_size=8)
    asked = EvaluateSpec(benchmark="archive", entries=learner, tasks=4, evolving=sized, calls_per_task=200)
    still = asked.replace(evolving=sized.replace(names=()))
    trained, untrained = (estimate_proof([request], None, 1).likely.calls for request in (asked, still))
    assert trained > untrained + 2 * 4 * 10


def test_a_dry_run_does_not_know_to_the_call_how_many_votes_a_price_pays_for() -> None:
    entries = make_entries([SystemSpec(name="self-refine", target="self-refine")])
    found = estimate_proof([EvaluateSpec(benchmark="archive", entries=entries, tasks=4, calls_per_task=200)], None, 1)
    singles, answers = 4 * 2, 4 * 7  # votes that cost as much as these answers may be more or fewer calls
    assert found.low.calls <= singles + answers + answers / 2 < found.likely.calls
    assert found.likely.calls + answers <= found.high.calls
