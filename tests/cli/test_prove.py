"""The command `prove`: what it refuses, what it says beforehand, and one small proof that is stopped and goes on."""

import json
import re
from pathlib import Path

import pytest

from tests.commands import call

SMALL = ("prove", "--benchmark", "archive", "--systems", "self-refine", "--tasks", "4", "--seeds", "2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--systems", "direct"), "a proof needs a system beside direct and cot; name some with --systems"),
        (("--systems", "cot=hiva"), "'cot' is the name of a baseline of every proof; give the system another"),
        (("--systems", "best-of-3=hiva"), "'best-of-3' is the name of votes at a system's price"),
        (("--systems", "nobody"), "methods are"),
        (("--benchmark", "nothing"), "unknown benchmark 'nothing'"),
        (("--grader", "f1"), "--grader would do nothing: they are for tasks of your own"),
        (("--model", "openai:gpt-4o-mini"), "prove asks before it spends money, and there is no terminal here; --yes"),
        (("--model", "openai:nobody-knows", "--budget-usd", "5"), "openai:nobody-knows"),
        (("--set", "hiva.nodes=3"), "'hiva' does not take part"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    refused = call(tmp_path, *SMALL, "--out", str(tmp_path), *words, code=2, OPENAI_API_KEY="none")
    assert message in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_what_it_costs_and_what_it_could_see(tmp_path: Path) -> None:
    said = call(tmp_path, *SMALL, "--benchmark", "tariffs", "--dry-run").stdout
    assert "3 systems and votes at their price on archive, tariffs, 2 seeds: nothing was sent" in said
    assert "archive: with 8 tasks of 2 seeds and 6 comparisons no gain can be seen" in said


@pytest.mark.slow
def test_a_proof_that_a_budget_stops_goes_on_and_its_page_is_checked(tmp_path: Path) -> None:
    words = (*SMALL, "--out", str(tmp_path), "--evolve", "none", "--json")
    stopped = call(tmp_path, *words, "--budget-calls", "130", code=3)
    assert re.findall("go on with: .*", stopped.stderr) == ["go on with: the same command again"]
    assert json.loads(stopped.stdout)["resume"] == "the same command again"
    assert "1 of 2 parts are finished" in (tmp_path / "prove.md").read_text()
    found = json.loads(call(tmp_path, *words).stdout)
    assert "2 of 2 parts are finished" in (tmp_path / "prove.md").read_text()
    assert {(line["system"], line["against"]) for line in found["verdicts"]} == {
        ("cot", "direct"), ("self-refine", "direct"), ("self-refine", "best of k"),
    }  # fmt: skip
    assert json.loads(call(tmp_path, *words).stdout)["spend"]["calls"] == found["spend"]["calls"]
    call(tmp_path, "results", "--check", str(tmp_path / "prove.md"))
    rows = tmp_path / "prove.jsonl"
    rows.write_text(rows.read_text().replace('"scores":[1.0,', '"scores":[0.5,', 1))
    assert "1 differences" in call(tmp_path, "results", "--check", str(tmp_path / "prove.md"), code=1).stdout


@pytest.mark.slow
def test_a_comparison_has_votes_at_the_price_of_its_systems_and_the_same_command_pays_for_nothing_twice(
    tmp_path: Path,
) -> None:
    words = ("compare", "self-refine", "--benchmark", "archive", "--tasks", "3", "--votes", "cot", "--evolve", "none")
    said = call(tmp_path, *words, "--json", "--markdown", str(tmp_path / "table.md")).stdout
    found = json.loads(said)
    [by_name] = found["votes"]
    [samples] = {int(name.removeprefix("best-of-")) for name in by_name if name.startswith("best-of-")} - {1}
    team, one = (by_name[name]["spend"] for name in ("self-refine", "best-of-1"))
    tokens = [spend["input_tokens"] + spend["output_tokens"] for spend in (team, one)]
    assert (samples - 1) * tokens[1] < tokens[0] <= samples * tokens[1]
    assert f"| {samples} |" in (tmp_path / "table.md").read_text()
    assert json.loads(call(tmp_path, *words, "--json").stdout)["spend"]["calls"] == found["spend"]["calls"]
    plain = [word for word in words if word not in ("--votes", "cot")]
    few, many = (call(tmp_path, *asked, "--dry-run", "--json").stdout for asked in (plain, words))
    assert json.loads(many)["likely"]["calls"] > json.loads(few)["likely"]["calls"]
