import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.agent import Agent
from selfwire.core.values import to_plain_json
from selfwire.evolvers.hiva.knowledge import ROOT, Knowledge, TaskConcepts, concept_name, concept_names

BRIDGE = TaskConcepts(main="bridge question", broader=("multi hop question", "question"), skills=("entity lookup",))


def test_concepts_hang_below_each_other_up_to_the_root() -> None:
    known = Knowledge().with_task(BRIDGE)
    assert (known.depth("bridge question"), known.depth("question")) == (3, 1)
    assert nx.shortest_path(known.graph, "concept:bridge question", ROOT)[-1] == ROOT


def test_d8_every_concept_has_a_depth_of_at_least_one() -> None:
    known = Knowledge().with_task(TaskConcepts(main="sum"))
    assert known.depth("sum") == known.depth("never heard of") == 1


def test_a_known_concept_keeps_its_place_and_new_ones_join_it() -> None:
    known = Knowledge().with_task(BRIDGE)
    below = known.with_task(TaskConcepts(main="film bridge", broader=("bridge question", "puzzle")))
    assert below.depth("film bridge") == 4
    assert "puzzle" not in below.concepts
    assert below.with_task(TaskConcepts(main="question", broader=("bridge question",))) == below


def test_edges_are_typed() -> None:
    agent = Agent(id="finder", prompt="Entity lookups are your job.", tools=("search",))
    graph = Knowledge().with_task(BRIDGE).with_agents([agent]).graph
    assert graph.edges["agent:finder", "concept:entity lookup"]["kind"] == "requires_skill"
    assert graph.edges["concept:bridge question", "concept:entity lookup"]["kind"] == "requires_skill"
    assert graph.edges["agent:finder", "tool:search"]["kind"] == "has_tool"
    assert graph.edges["concept:question", ROOT]["kind"] == "is_a"


def test_an_agent_is_joined_to_the_concepts_that_it_names() -> None:
    known = Knowledge().with_task(BRIDGE).with_agents([Agent(id="a", prompt="Look up an ENTITY; lookups only.")])
    assert known.get_concepts("a") == {"entity lookup"}
    assert known.with_agents([]).get_concepts("a") == frozenset()


def test_paths_count_steps_over_concepts() -> None:
    named = Agent(id="expert", prompt="You solve a bridge question.")
    skilled = Agent(id="finder", prompt="You do entity lookup.")
    known = Knowledge().with_task(BRIDGE).with_agents([named, skilled])
    assert [known.path(name, "bridge question") for name in ("expert", "finder", "nobody")] == [1, 2, None]
    assert known.path("finder", "unheard of") is None


def test_d15_a_path_leads_neither_through_the_root_nor_through_other_agents() -> None:
    far = TaskConcepts(main="sum", skills=("arithmetic",))
    grown = Knowledge().with_task(BRIDGE).with_task(far)
    adder = Agent(id="adder", prompt="You do arithmetic.")
    both = Agent(id="both", prompt="You do arithmetic and entity lookup.")
    for agents in ([adder], [adder, both]):
        assert grown.with_agents(agents).path("adder", "bridge question") is None
    assert grown.with_agents([adder, both]).path("both", "bridge question") == 2


def test_names_are_normalised() -> None:
    assert concept_name("  Date-Arithmetics! ") == "date arithmetic"
    assert concept_names(["Class", "class", "", "!?", "task", "Tasks"]) == ("class",)
    assert len(concept_name("x" * 500)) == 60


def test_the_graph_survives_json() -> None:
    known = Knowledge().with_task(BRIDGE).with_agents([Agent(id="a", prompt="bridge question", tools=("t",))])
    assert Knowledge.model_validate(to_plain_json(known.model_dump(mode="json"))) == known


names = st.sampled_from(["a", "b", "c", "d", "e"])


@settings(deadline=None)
@given(st.lists(st.tuples(names, st.lists(names, max_size=4), st.lists(names, max_size=3)), max_size=8))
def test_concepts_always_form_a_tree(tasks: list[tuple[str, list[str], list[str]]]) -> None:
    known = Knowledge()
    for main, broader, skills in tasks:
        known = known.with_task(TaskConcepts(main=main, broader=tuple(broader), skills=tuple(skills)))
    for concept in known.concepts:
        assert nx.has_path(known.graph, f"concept:{concept}", ROOT)
        assert 1 <= known.depth(concept) <= len(known.concepts)
    assert len(known.parent) == len(known.is_a)
