"""HERA over HTTP with a model that behaves well: what it is shown when it learns from a question with passages."""

import json
from typing import Any

from langchain_core.messages import AIMessage

from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.graphs import hera
from tests.asks import local, speaks
from tests.graphs.orchestra import SCRIPT, order
from tests.graphs.scripted import EVOLVE
from tests.request_parts import read_instructions
from tests.scripted import section
from tests.wire.server import Body, WireServer

DECISIVE = "The glass bridge\nThe glass bridge of Tarn was built by Mira Holt. Work began in 1931. It has four arches."
TOWNS = [f"Town {n}\nThe town has a market, a mill and {n} inns. Its river is often frozen." for n in range(60)]
TASK = "\n\n".join(["Answer in a few words, by the passages.", *TOWNS[:30], DECISIVE, *TOWNS[30:], "Who built it?"])
CAUSE = "It quoted the passage and did not say what follows from it."
MEASURE = "It scores by the words that it shares with the reference: say no more than is asked."
AGENTS = ("evidence_selector", "answer_generator")


def reply(body: Body) -> AIMessage:
    wanted = (body.get("response_format") or {}).get("json_schema", {}).get("name")
    ran = next((name for name in ("answer_generator", "conclude_agent") if name in body["messages"][-1]["content"]), "")
    script = {
        **SCRIPT,
        "TopologyPlan": order(*AGENTS),
        "FailedAgent": {"agent": ran, "cause": CAUSE},
        "Mutation": {**SCRIPT["Mutation"], "alternative": "conclude_agent"},
    }
    if wanted:
        return AIMessage(json.dumps(script[wanted]))
    if speaks(body, "You are the evidence selector"):
        return AIMessage(f"The decisive passage reads:\n\n{DECISIVE}")
    return AIMessage("Mira Holt built the glass bridge in 1931.")


async def answer(body: Body) -> AIMessage:
    return reply(body)


async def assess(question: Question, said: str, scope: Scope) -> Feedback:
    return Feedback(score=0.3 * ("thoroughness" in scope.phase), solved=False, text=MEASURE)


async def learn() -> list[dict[str, str]]:
    """The messages by role of everything that was asked."""
    with WireServer(answer) as server:
        config = HeraConfig(group=2)
        graph = hera.build(local(server.url), grader=assess, config=config, embedder="hashing").compile()
        await graph.ainvoke({"question": TASK}, context=EVOLVE)
        return [{one["role"]: str(one["content"]) for one in asked.body["messages"]} for asked in server.asked]


def shown(messages: list[dict[str, str]], beginning: str) -> list[str]:
    return [one["user"] for one in messages if read_instructions(one["system"], one["user"]).startswith(beginning)]


async def test_mutation_names_the_cause_and_replays_show_the_decisive_passage_whole() -> None:
    messages = await learn()
    [mutated] = shown(messages, "A team has failed on a question")
    assert section(mutated, "cause") == CAUSE
    assert section(mutated, "tried") == "evidence_selector; answer_generator reads evidence_selector"
    variants, contrasts = shown(messages, "You vary the prompt"), shown(messages, "You learn from an experiment")
    assert (len(variants), len(contrasts)) == (3, 1)
    for text in (section(contrasts[0], "case"), *(section(one, "failures") for one in variants)):
        asked, _, handed = text.partition("it was handed:\nFrom evidence_selector:\n")
        assert DECISIVE in asked
        assert DECISIVE in handed
        assert "Who built it?" in asked
        assert CAUSE in text
    assert section(contrasts[0], "variants").count("Mira Holt built the glass bridge in 1931.") == 5  # one per run
    for beginning in ("You find out who is to blame", "A team has failed", "You vary", "You learn from an experiment"):
        assert all(MEASURE in one for one in shown(messages, beginning))


async def test_nobody_is_told_of_a_search_where_there_is_none() -> None:
    said: list[Any] = [list(one.values()) for one in await learn()]
    assert said
    assert not [one for one in said if "retriever" in " ".join(one) or "corpus" in " ".join(one)]
