"""Corpora and retrievers of run, recall of retrieval, and the topology measures of a run."""

import json
import re
from pathlib import Path

import pytest

from selfwire.evals.topology_metrics import RunMetrics
from tests.benchmark_data import needs_data
from tests.commands import call


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    pages = [
        {"title": "Vask", "text": "Vask is a city in Prund."},
        {"title": "Brol Works", "text": "Brol Works was founded in 1901 by Ada Tron."},
        {"title": "Ada Tron", "text": "Ada Tron was born in Vask."},
    ]
    file.write_text("\n".join(json.dumps(page) for page in pages))
    return file


@pytest.mark.parametrize("retriever", [(), ("--retriever", "dense"), ("--retriever", "hybrid")])
def test_run_searches_a_corpus_of_the_users_own(tmp_path: Path, corpus: Path, retriever: tuple[str, ...]) -> None:
    asked = ("run", "hiva", "In which country is Vask?", "--corpus", str(corpus), *retriever, "--show")
    result = call(tmp_path, *asked)
    assert "[1] Vask Vask is a city in Prund." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retriever", "dense"], r"--retriever ranks the documents of --corpus"),
        (["--corpus", "CORPUS", "--retriever", "tfidf"], r"no retriever 'tfidf'; choose bm25, dense, hybrid"),
        (["--corpus", "nowhere.jsonl"], r"corpus nowhere.jsonl cannot be read"),
        (["--corpus", "BAD"], r"line 2 is no document \(text: Field required\)"),
    ],
)
def test_bad_corpora_and_retrievers_are_one_clear_message(
    tmp_path: Path, corpus: Path, arguments: list[str], message: str
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"title": "a", "text": "b"}\n{"title": "a"}')
    files = {"CORPUS": str(corpus), "BAD": str(bad)}
    result = call(tmp_path, "run", "hiva", "Who?", *(files.get(one, one) for one in arguments), code=2)
    assert result.stdout == ""
    assert re.search(message, result.stderr)


@needs_data
def test_recall_tells_what_bm25_finds(tmp_path: Path) -> None:
    told = call(tmp_path, "recall", "hotpotqa")
    assert "recall@5 0.770 recall@10 0.910, answer@5 0.705 answer@10 0.853" in told.stdout
    [as_json] = json.loads(call(tmp_path, "recall", "hotpotqa", "--json").stdout)["retrievers"]
    assert (as_json["questions"], as_json["passages"]) == (100, 1000)


@needs_data
def test_eval_tells_official_measures_and_recall_beside_the_score(tmp_path: Path) -> None:
    result = call(tmp_path, "eval", "direct", "--benchmark", "hotpotqa", "--tasks", "4")
    assert re.search(r"^trivial baseline: em \d\.\d{3}, f1 \d\.\d{3}, accuracy \d\.\d{3}$", result.stdout, re.MULTILINE)
    assert re.search(r"^direct: em \d\.\d{3}, f1 \d\.\d{3}, accuracy \d\.\d{3}$", result.stdout, re.MULTILINE)
    assert "hotpotqa, bm25 over 1,000 passages, 100 questions: recall@5 0.770 recall@10 0.910" in result.stdout


def test_recall_names_what_it_cannot_measure(tmp_path: Path) -> None:
    assert "no multi-hop benchmark 'archive'" in call(tmp_path, "recall", "archive", code=2).stderr


def test_measures_of_any_methods_run(tmp_path: Path) -> None:
    sizes = ("--iterations", "2", "--batch", "4", "--train", "8", "--gate", "off", "--test", "0", "--no-baselines")
    begun = call(tmp_path, "evolve", "hiva", "--benchmark", "archive", *sizes)
    run = re.findall(r"run (hiva-archive-\w+):", begun.output)[0]
    told = call(tmp_path, "measures", run, "--window", "4").stdout.splitlines()
    assert told[0].split() == "queries entropy agents F1/|V| self-loops cycles diameter F1 tokens".split()
    assert [line.split()[:2] for line in told[1:5]] == [
        ["initial", "2"], ["exploration", "2"], ["refinement", "2"], ["optimization", "2"],
    ]  # fmt: skip
    printed = json.loads(call(tmp_path, "measures", run, "--window", "4", "--json").stdout)
    found = RunMetrics.model_validate(printed["measures"])
    assert found.whole.queries == 8
    assert len(found.entropies) == 5
    assert found.whole.agents is not None
    assert found.whole.agents >= 2
    curve = call(tmp_path, "measures", run, "--curve", "--window", "4")
    assert [line.split()[0] for line in curve.stdout.splitlines()[1:-1]] == list("12345678")
    points = json.loads(call(tmp_path, "measures", run, "--curve", "--json").stdout)["curve"]
    assert points[-1]["window_score"] == pytest.approx(found.whole.f1)  # one trajectory per query, none failed
    assert "no run 'r9'" in call(tmp_path, "measures", "r9", code=2).stderr
