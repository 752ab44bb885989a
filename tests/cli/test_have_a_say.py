"""What a user may say about an evolution: what stays as it is, and what every change should heed."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import selfwire
from selfwire.cli.commands import WRONG
from selfwire.core.errors import ConfigError
from selfwire.models.providers import make_chat_model
from tests.commands import call
from tests.wire.server import WireServer, asked_kind, served

SMALL = "--gate mean --iterations 2 --batch 4 --gate-tasks 4 --train 8 --gate-size 8 --test 2 --no-baselines".split()
WISH = "keep the tone formal, whatever $else happens"
LEARNING = {
    "hiva": {"GlobalGradient", "AgentGradient", "PromptRewrite", "TopologyDecision"},
    "hera": {"FailedAgent", "Mutation", "Reflection", "LibraryOperations", "PromptVariant", "Contrast"},
}
"""Kinds of replies that learning asks for in these runs."""
WORKING = {"hiva": {"", "TaskProfile", "Instruction"}, "hera": {"", "QueryProfile", "TopologyPlan"}}
"""Kinds of replies that the work on a task asks for; agents reply with plain text."""


def evolve(home: Path, method: str, *more: str, code: int = 0) -> tuple[dict[str, list[str]], Any]:
    """The system messages of an evolution by the kind of reply, and its output."""
    offline, heard = served(make_chat_model("offline")), defaultdict[str, list[str]](list)

    async def answer(body: dict[str, Any]) -> AIMessage:
        heard[asked_kind(body)].append(body["messages"][0]["content"])
        return await offline(body)

    with WireServer(answer) as server:
        given = ("--model", "openai:mine", "--base-url", server.url, "--embedder", "hashing")
        done = call(
            home, "evolve", method, "--benchmark", "archive", "--name", "mine", *given, *SMALL, *more, code=code
        )
    return heard, done


@pytest.mark.parametrize(("method", "seeds"), [("hiva", "2"), ("hera", "68")])  # in which each of them is asked
def test_every_critic_and_rewriter_hears_the_guide_and_no_agent_does(tmp_path: Path, method: str, seeds: str) -> None:
    heard = defaultdict[str, list[str]](list)
    for seed in seeds:
        for kind, texts in evolve(tmp_path / seed, method, "--guide", WISH, "--seed", seed)[0].items():
            heard[kind] += texts
    said = f"What the owner of the team asks of every change: {WISH}"
    shares = {kind: sum(said in text for text in texts) / len(texts) for kind, texts in heard.items()}
    assert {kind for kind, share in shares.items() if share == 1} >= LEARNING[method]
    working = {kind for kind, share in shares.items() if share < 1}
    assert {""} < working <= WORKING[method]
    assert {shares[kind] for kind in working} == {0}


@pytest.mark.parametrize(
    ("method", "frozen", "unasked"),
    [
        ("hiva", ("edges", "prompts"), {"PromptRewrite", "TopologyDecision"}),
        ("hera", ("prompts",), {"PromptVariant", "Contrast"}),
    ],
)
def test_nobody_is_asked_to_change_what_is_frozen(
    tmp_path: Path, method: str, frozen: tuple[str, ...], unasked: set[str]
) -> None:
    heard, _ = evolve(tmp_path, method, *(word for part in frozen for word in ("--freeze", part)))
    assert not unasked & heard.keys()
    learning = LEARNING[method] & heard.keys()
    assert learning
    assert all("These are fixed, so propose no change of them: " in text for kind in learning for text in heard[kind])
    before, after = (load(f"mine@{version}", tmp_path) for version in ("0", "2"))
    assert all(after.agents_by_id[agent.id].prompt == agent.prompt for agent in before.agents)
    assert "edges" not in frozen or after.topology == before.topology


def load(ref: str, home: Path) -> selfwire.Team:
    return selfwire.load(ref, home=home)


def test_a_part_that_the_team_does_not_have_is_refused_before_a_call(tmp_path: Path) -> None:
    heard, done = evolve(tmp_path, "hiva", "--freeze", "agent:planer", code=WRONG)
    told = "freeze 'agent:planer': the team has no such part; it has edges, prompts, tools, models, agent:aggregator"
    assert told in " ".join(done.stderr.split())
    assert not heard
    with pytest.raises(ConfigError, match="freeze 'edge': the team has no such part"):
        selfwire.evolve("hiva", "archive", freeze=["edge"], home=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_guide_has_an_end(tmp_path: Path) -> None:
    heard, done = evolve(tmp_path, "hiva", "--guide", "x" * 4001, code=WRONG)
    assert "at most 4000 characters" in done.stderr
    assert not heard
