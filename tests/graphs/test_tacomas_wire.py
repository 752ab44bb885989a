"""TacoMAS through the real client of a compatible server: with a worker that keeps failing, and where all is well."""

import re
from collections import Counter

from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.pictures import format_round
from selfwire.evolvers.tacomas.rounds import TacomasRound
from selfwire.graphs import tacomas
from selfwire.models.providers import make_chat_model
from tests.asks import local, speaks
from tests.scripted import section
from tests.wire.server import Body, WireServer, asked_kind, by_kind, refused, served

CALCULATOR = "You are the calculator"
PASSAGE = "The Rald Bridge, opened in 1902, is 310 metres long."
QUESTION = f"Which bridge is longer, the Rald Bridge or the Tove Bridge?\n\n{PASSAGE}"
GUESSED = "A length was assumed without a source."
CHECKLIST = {
    "items": [{"criterion": f"Statement {n}.", "operator": "correctness"} for n in (1, 2, 3)]
    + [{"criterion": GUESSED, "operator": "contradiction"}]
}
CRITIC = {"role": "critic", "goal": "Doubt every length.", "tools": []}
SWAP = {
    "birth_death_pairs": [{"v_dead": "calculator", "v_new": CRITIC}], "graph_edit": [], "agent_feedback": [],
    "global_rationale": "Nothing is computed.", "time_control": "continue",
}  # fmt: skip
ADVICE = {"agent": "reflector", "errors": "A guess.", "plan": "Quote.", "kind": "prompt", "update": "Give the source."}


async def test_a_worker_that_keeps_failing_is_left_out_and_told() -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        server.picky = lambda body: refused() if speaks(body, CALCULATOR) else None
        graph = tacomas.build(local(server.url), config=TacomasConfig(rounds=2, topology=False)).compile()
        result = await graph.ainvoke({"question": "What am I?"})
    rounds = [TacomasRound.model_validate(one) for one in result["rounds"]]
    assert all(one.answer is not None for one in rounds)
    assert all("calculator" not in {score.agent for score in one.contributions} for one in rounds)
    assert all([*one.silent] == ["calculator"] for one in rounds)
    assert all("401" in one.silent["calculator"] for one in rounds)
    assert all("calculator failed, and the round went on without it" in format_round(one) for one in rounds)


class WellBehaved:
    """A model that guesses a length in two rounds, and then no more."""

    def __init__(self) -> None:
        self.verdicts = [[True] * 4, [True] * 4, [True, True, True, False], [False, True, True, True]]

    def __call__(self, kind: str, body: Body) -> Body | str:
        if kind == "Verdict":
            return {"results": self.verdicts.pop(0), "reason": "so it is"}
        if kind == "Contributions":
            names = re.findall(r"^\[([a-z-]+)\] ", user(body), re.MULTILINE)
            return {"scores": [{"agent": name, "score": 0.7, "reason": "well done"} for name in names]}
        said: dict[str, Body] = {"Checklist": CHECKLIST, "Refinement": {"agents": [ADVICE]}, "SlowUpdate": SWAP}
        return said[kind] if kind else f"I, {body['messages'][0]['content'].split(' of ')[0]}, think it is the first."


def user(body: Body) -> str:
    return str(body["messages"][-1]["content"])


async def test_a_model_that_behaves_well_is_asked_for_goals_and_for_nothing_in_vain() -> None:
    with WireServer(by_kind(WellBehaved())) as server:
        graph = tacomas.build(local(server.url), config=TacomasConfig(rounds=5)).compile()
        result = await graph.ainvoke({"question": QUESTION})
    asked = [(asked_kind(one.body), one.body) for one in server.asked]
    assert (result["figures"]["stop"], len(result["rounds"])) == ("threshold", 3)
    kinds = Counter(kind for kind, _ in asked)
    assert kinds == {"": 15, "Checklist": 1, "Verdict": 4, "Contributions": 2, "Refinement": 2, "SlowUpdate": 1}
    goals = [section(user(body), "goal") for kind, body in asked if kind in ("Refinement", "SlowUpdate")]
    assert goals == [f"- Make sure that this is not so: {GUESSED}"] * 3
    coached = [section(user(body), "agents") for kind, body in asked if kind == "Refinement"]
    assert [re.findall(r"^\[(.+)\]$", one, re.MULTILINE) for one in coached] == [["reflector"]] * 2
    note = "After round 1. Fault: A guess. Next: Quote. Rule: Give the source."
    assert ["notes:" in one for one in coached] == [False, True]
    assert note in coached[1]
    assert note in section(next(user(body) for kind, body in asked if kind == "SlowUpdate"), "agents")
    assert all(str(body["messages"]).count(PASSAGE) == 1 for _, body in asked)


async def test_an_agent_that_was_replaced_is_not_named_after_the_dead_one() -> None:
    with WireServer(by_kind(WellBehaved())) as server:
        graph = tacomas.build(local(server.url), config=TacomasConfig(rounds=5)).compile()
        result = await graph.ainvoke({"question": QUESTION})
    assert result["rounds"][1]["births"] == ["critic"]
    last = [asked.body for asked in server.asked][-7:]
    verifier = next(body for body in last if speaks(body, "You verify"))
    assert "From critic:" in user(verifier)
    assert "[critic]" in user(last[-1])
    assert not any("calculator]" in user(body) or "From calculator" in user(body) for body in last)
