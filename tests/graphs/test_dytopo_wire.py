"""DyTopo through the real client of a compatible server, with a model that behaves well."""

from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.graphs import dytopo
from tests.asks import local
from tests.scripted import section
from tests.wire.server import Body, WireServer, asked_kind, by_kind

PASSAGE = "The Rald Bridge, opened in 1902, is 310 metres long."
QUESTION = f"Which bridge is longer, the Rald Bridge or the Tove Bridge?\n\n{PASSAGE}"
NEED, LENGTH = "the length of the Tove Bridge", "The Tove Bridge is 280 metres long."
SILENT = {"public": "Nothing new from me.", "private": "", "query": "", "key": ""}


def say(kind: str, body: Body) -> Body:
    """The reasoner asks for a length in round 1; whoever reads that need in round 2 offers it."""
    asked = str(body["messages"][-1]["content"])
    if kind == "Halting":
        done = "Its answer: " in asked
        return {"is_complete": done, "next_goal": "" if done else "Send Reasoner the length.", "public": "So it is."}
    if "You are the reasoner" in asked:
        if LENGTH not in asked:
            return {**SILENT, "query": NEED}
        return {**SILENT, "private": "310 > 280", "key": "which bridge is longer"}
    if "You are the researcher" in asked and f"Reasoner: {NEED} (no offer fitted)" in asked:
        return {**SILENT, "private": LENGTH, "key": NEED}
    if "You are the writer" in asked:
        return {**SILENT, "query": "which bridge is longer", "answer": "Rald Bridge" if "310 > 280" in asked else ""}
    return {**SILENT}


async def test_what_was_asked_for_in_the_first_round_is_offered_in_the_second_and_read_in_the_third() -> None:
    with WireServer(by_kind(say)) as server:
        graph = dytopo.build(local(server.url), embedder="hashing", config=DytopoConfig(rounds=5)).compile()
        result = await graph.ainvoke({"question": QUESTION})
    users = [(asked_kind(request.body), str(request.body["messages"][-1]["content"])) for request in server.asked]
    assert (result["answer"], result["stopped"], len(result["rounds"])) == ("Rald Bridge", "complete", 4)
    assert all(text.count(PASSAGE) == 1 for _, text in users)
    first, *goals = [section(text, "goal") for kind, text in users if kind == "Halting"]
    assert (first, set(goals)) == ("", {"Send Reasoner the length."})
    second = [text for kind, text in users if "This is round 2 of at most 5." in text]
    assert [f": {NEED} (no offer fitted)" in section(text, "needs") for text in second] == [True] * 4
    assert any(f"[From Researcher, round 2]\n{LENGTH}" in text for _, text in users)
    assert "Other members never read your public message" in users[0][1]
    assert not any("- calls:" in text for _, text in users)
