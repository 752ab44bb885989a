"""Topology mutation: the failed agent replaced, or a new one after it (Alg. 6)."""

import pytest

from selfwire.core.agent import Agent
from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.topology import Edge, Node, Topology, make_chain
from selfwire.core.values import FrozenMap
from selfwire.evolvers.hera.failures import Blame
from selfwire.evolvers.hera.mutation import (
    REMEMBERED,
    MutatedTopology,
    TriedMutation,
    get_mutated,
    insert_agent,
    join_pool,
    propose_mutations,
    replace_agent,
    with_mutated,
)
from selfwire.evolvers.hera.schemas import Mutation
from selfwire.evolvers.hiva.descriptions import DescribedTool
from tests.evolvers.hera.doubles import SEARCH, meta_model, pool, ran
from tests.scripted import ScriptedModel, section

CHAIN = pool().topology
BLAME = Blame(agent="retriever", place=0)
TWICE = Topology(
    nodes=tuple(Node(id=i, agent=a) for i, a in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "z")]),
    edges=tuple(Edge(source=s, target=t) for s, t in [("a", "b"), ("b", "c"), ("c", "d")]),
    entry="a",
    sink="d",
)


def shape(topology: Topology) -> set[str]:
    return {str(edge) for edge in topology.edges}


def test_an_agent_is_replaced_on_all_its_nodes() -> None:
    found = replace_agent(CHAIN, "retriever", "query_rewriter")
    assert shape(found) == {
        "query_decomposer->query_rewriter", "query_rewriter->evidence_selector", "evidence_selector->answer_generator"
    }  # fmt: skip
    both = replace_agent(TWICE, "x", "y")
    assert sorted(both.agents.values()) == ["y", "y", "y", "z"]
    assert both.problems() == ()
    assert replace_agent(CHAIN, "answer_generator", "conclude_agent").sink == "conclude_agent"


def test_a_second_node_of_an_agent_with_the_longest_name_has_a_name_that_is_one() -> None:
    long = "x" * 64
    found = replace_agent(make_chain("retriever", long), "retriever", long)
    assert found.order() == (f"{long[:58]}-2", long)


def test_a_new_agent_comes_after_the_last_node_of_the_failed_one() -> None:
    assert shape(insert_agent(TWICE, "x", "new")) == {"a->b", "b->c", "c->new", "new->d"}
    end = insert_agent(CHAIN, "answer_generator", "new")
    assert (end.sink, end.problems()) == ("new", ())


def said(**changes: object) -> Mutation:
    fields = {"alternative": "Query Rewriter", "name": "Date finder!", "role": "finds\ndates",
              "instruction": "You look for dates.", "tools": ["search: Searches the archive.", "launch"]}  # fmt: skip
    return Mutation.model_validate({**fields, **changes})


async def tried(answer: Mutation | ReplyError, most: int = 16, blame: Blame = BLAME) -> tuple[MutatedTopology, ...]:
    found, _ = await propose_mutations(
        [ran(topology=CHAIN)], blame, pool(), meta_model(ScriptedModel(Mutation=answer)),
        tools={"search": SEARCH}, pool=most, scope=Scope(task="q1"),
    )  # fmt: skip
    return found


async def test_a_mutation_sees_the_cause_all_topologies_that_failed_and_agents_that_can_do_their_work() -> None:
    group = [ran(topology=one) for one in (CHAIN, make_chain("retriever", "conclude_agent"), CHAIN)]
    blame = BLAME.replace(cause="it searched for everything at once")
    bare = pool().replace(agents=[agent.replace(tools=()) for agent in pool().agents])
    shown = []
    for team in (pool(), bare):
        model = ScriptedModel(Mutation=said())
        await propose_mutations(group, blame, team, meta_model(model), tools={"search": SEARCH}, pool=16, scope=Scope())
        shown += model.shown("Mutation")
    for text in shown:
        assert f"<agent>\nretriever: {pool().agents_by_id['retriever'].role}" in text
        assert "<cause>\nit searched for everything at once\n</cause>" in text
        tried = text.partition("<tried>\n")[2].partition("\n</tried>")[0].split("\n")
        assert [line.split(";")[-1] for line in tried] == [
            " answer_generator reads evidence_selector", " conclude_agent reads retriever"
        ]  # fmt: skip
        assert "<tools>\nsearch: Searches the archive.\n</tools>" in text
        assert "those who read that agent read the new one instead" in text  # as `insert_agent` connects it
    assert ["query_rewriter: " in text for text in shown] == [True, False]


async def test_both_options_of_the_paper_are_tried() -> None:
    replace, insert = await tried(said())
    assert replace.topology == replace_agent(CHAIN, "retriever", "query_rewriter")
    assert insert.newcomer == Agent(
        id="date_finder", role="finds dates", prompt="You look for dates.", tools=("search",)
    )
    assert insert.topology == insert_agent(CHAIN, "retriever", "date_finder")


async def test_a_newcomer_that_gives_the_answer_may_end_later_plans_too() -> None:
    for agent, kind in (("retriever", "worker"), ("answer_generator", "aggregator")):
        _, insert = await tried(said(), blame=Blame(agent=agent, place=0))
        assert insert.newcomer is not None
        assert insert.newcomer.kind == kind


async def test_d5_who_takes_the_place_of_the_agent_that_answers_answers_too() -> None:
    blame, model = Blame(agent="answer_generator", place=0), ScriptedModel(Mutation=said(alternative="query_rewriter"))
    [replaced, _], _ = await propose_mutations(
        [ran(topology=CHAIN)], blame, pool(), meta_model(model), tools={}, pool=16, scope=Scope()
    )
    assert replaced.topology.agents[replaced.topology.sink] == "conclude_agent"
    listed = model.shown("Mutation")[0].partition("<agents>\n")[2].partition("\n</agents>")[0]
    assert [line.partition(":")[0] for line in listed.split("\n")] == ["conclude_agent"]


async def test_any_agent_takes_the_place_of_the_only_one_that_answers() -> None:
    blame, model = Blame(agent="answer_generator", place=0), ScriptedModel(Mutation=said())
    team = pool().replace(agents=[agent for agent in pool().agents if agent.id != "conclude_agent"])
    [replaced, _], _ = await propose_mutations(
        [ran(topology=CHAIN)], blame, team, meta_model(model), tools={}, pool=16, scope=Scope()
    )
    assert replaced.topology.agents[replaced.topology.sink] == "query_rewriter"
    listed = section(model.shown("Mutation")[0], "agents")
    assert {line.partition(":")[0] for line in listed.split("\n")} == {*team.agents_by_id} - {"answer_generator"}


async def test_a_tool_has_a_line_whatever_its_description() -> None:
    lines = "Look a name up.\n\n    Use it for names.\n    search: not for dates."
    lookup = DescribedTool(spec=ToolSpec(name="lookup", description=lines, parameters=FrozenMap()))
    model = ScriptedModel(Mutation=said())
    await propose_mutations(
        [ran(topology=CHAIN)], BLAME, pool(), meta_model(model), tools={"lookup": lookup}, pool=16, scope=Scope()
    )
    [shown] = model.shown("Mutation")
    assert section(shown, "tools") == "lookup: Look a name up. Use it for names. search: not for dates."


@pytest.mark.parametrize("name", ["nobody", "retriever", ""])
async def test_an_alternative_that_is_none_is_drawn_instead(name: str) -> None:
    first, again = [(await tried(said(alternative=name)))[0] for _ in range(2)]
    assert first == again
    assert "retriever" not in first.topology.agents.values()


@pytest.mark.parametrize("answer", [said(name="???"), said(instruction=" "), ReplyError("nonsense")])
async def test_a_newcomer_without_name_prompt_or_valid_reply_is_not_created(answer: Mutation | ReplyError) -> None:
    assert [(one.kind, one.newcomer) for one in await tried(answer)] == [("replace", None)]


async def test_d21_a_full_pool_gets_no_newcomer_and_a_taken_name_gets_a_number() -> None:
    assert [one.kind for one in await tried(said(), most=9)] == ["replace"]
    insert = (await tried(said(name="retriever")))[1]
    assert insert.newcomer is not None
    assert insert.newcomer.id == "retriever-2"


async def test_d8_a_newcomer_that_has_helped_joins_the_pool() -> None:
    replace, insert = await tried(said())
    tries = [TriedMutation(place=place, candidate=candidate) for place, candidate in enumerate((replace, insert))]
    now, [rewiring], _ = join_pool(pool(), tries, [ran(score=1.0), ran(score=1.0)], 0.6)
    assert "date_finder" in now.agents_by_id
    assert join_pool(pool(), tries, [ran(score=1.0), ran(score=0.0)], 0.6) == (pool(), [], ())
    assert now.topology == pool().topology
    assert "came to 1.00" in rewiring.why


def test_questions_that_had_their_second_group_are_remembered() -> None:
    team = with_mutated(with_mutated(pool(), ["a", "b"]), ["b", "c"])
    assert get_mutated(team) == ("a", "b", "c")
    many = with_mutated(team, [str(n) for n in range(REMEMBERED)])
    assert len(get_mutated(many)) == REMEMBERED
    assert "a" not in get_mutated(many)
    assert with_mutated(pool(), []) == pool()
