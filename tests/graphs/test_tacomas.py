"""TacoMAS end to end: the machine with scripted and offline models, its ablations, and no label within reach."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Topology, to_mermaid
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap
from selfwire.evals.benchmarks.archive import archive
from selfwire.evolvers.tacomas.config import FastConfig, SlowConfig, TacomasConfig
from selfwire.evolvers.tacomas.rounds import TacomasRound
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs import tacomas
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.graphs.tacomas import Tacomas
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from tests.graphs.scripted import ASKED, FORMS, TurnsChat, on, run
from tests.request_parts import BELOW_TASK
from tests.scripted import section

CRITERIA = ("It answers.", "It is proven.", "It has the right form.", "It is a guess.")
NAMES = ("planner", "searcher", "calculator", "verifier", "reflector")
NOTHING: dict[str, Any] = {
    "birth_death_pairs": [], "graph_edit": [], "agent_feedback": [], "global_rationale": "", "time_control": "continue",
}  # fmt: skip
SCRIPT: dict[str, dict[str, Any]] = {
    "Checklist": {"items": [
        {"criterion": text, "operator": "contradiction" if "guess" in text else "correctness"} for text in CRITERIA
    ]},
    "Verdict": {"results": [True, False, True, True], "reason": "not proven"},
    "Contributions": {"scores": [
        {"agent": name, "score": score, "reason": "so it seems"}
        for name, score in zip(NAMES, (0.5, 1.0, 0.0, 0.5, 0.5), strict=True)
    ]},
    "Refinement": {"agents": [
        {"agent": name, "errors": "sloppy", "plan": "be exact", "kind": "prompt", "update": "prove it"}
        for name in NAMES
    ]},
    "SlowUpdate": {**NOTHING, "graph_edit": [{"op": "edge_add", "source": "searcher", "target": "reflector"}]},
}  # fmt: skip


class Script(TurnsChat):
    """Follows a script in which a list is a reply per call, the last one again and again."""

    sent: list[str] = Field(default_factory=list)
    """Every message of every call."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.sent.append("\n".join(message.text for message in messages))
        return super()._generate(messages, *args, **kwargs)

    def shown(self, beginning: str) -> list[str]:
        """The calls whose instructions begin so."""
        return [text for text in self.sent if f"{BELOW_TASK}{beginning}" in text]


def scripted(**turns: list[Any]) -> Script:
    return Script(script=SCRIPT, turns=turns)


def verdict(*results: bool) -> dict[str, Any]:
    return {"results": list(results), "reason": ""}


GOOD, TURNED = verdict(True, True, True, False), verdict(False, True, True, True)


def rounds_of(result: Mapping[str, Any]) -> list[TacomasRound]:
    return [TacomasRound.model_validate(one) for one in result["rounds"]]


def invoked(model: Any, **fields: Any) -> dict[str, Any]:
    final: dict[str, Any] = tacomas.build(model, config=TacomasConfig(**fields)).compile().invoke(ASKED)
    return final


@FORMS
async def test_it_runs_all_rounds_where_the_judge_is_not_satisfied(form: str) -> None:
    graph = tacomas.build(scripted(), config=TacomasConfig(rounds=4)).compile()
    result = await run(form, graph, ASKED)
    assert result["figures"]["stop"] == "rounds"
    assert [one.score for one in rounds_of(result)] == [0.5] * 4
    assert [one.slow for one in rounds_of(result)] == [False, True, False, False]
    assert result["answer"] == "answer 20"  # ties go to the latest round
    assert result["oracle"] is False


def test_a_confirmed_score_ends_the_run() -> None:
    result = invoked(scripted(Verdict=[verdict(True, False, True, True), GOOD, TURNED]))
    assert result["figures"]["stop"] == "threshold"
    assert [one.score for one in rounds_of(result)] == [0.5, 1.0]
    assert result["answer"] == "answer 10"


def test_d24_at_a_price_a_run_ends_before_anybody_is_scored_for_a_round_that_would_not_pay() -> None:
    def rate(objective: str) -> tuple[str, list[bool]]:
        result = invoked(scripted(), rounds=6, objective=objective)
        return result["figures"]["stop"], [bool(one.contributions) for one in rounds_of(result)]

    assert rate("score") == ("rounds", [*[True] * 5, False])
    # 0.5 is missing after each round, and the five agents make five calls: 0.5 / 4 < 5 * 0.03 <= 0.5 / 3
    assert rate("score - 0.03*calls") == ("price", [*[True] * 3, False])
    assert rate("score - 0.2*calls") == ("price", [False])
    with pytest.raises(ValueError, match="counts score, calls, tokens and seconds"):
        TacomasConfig(objective="score - dollars")


def test_d25_an_agent_reads_what_the_coach_says_and_not_its_score() -> None:
    model = scripted()
    invoked(model, rounds=3)
    asked_for_objects = [text for text in model.sent if "Reply with one JSON object" in text]
    agents = [text for text in model.sent if "Reply with one JSON object" not in text]
    assert len(agents) == 3 * len(NAMES)
    assert any("so it seems" in text for text in asked_for_objects)
    assert any("be exact" in text for text in agents)
    assert not any("so it seems" in text or "contribution" in text for text in agents)


def test_d5_a_score_that_is_not_confirmed_goes_on() -> None:
    doubt = verdict(True, True, True, True)
    result = invoked(scripted(Verdict=[GOOD, doubt, GOOD, TURNED]), rounds=5)
    assert [(one.score, one.confirmed) for one in rounds_of(result)] == [(0.75, False), (1.0, True)]


def test_d5_a_team_whose_score_reached_the_threshold_is_not_rewired_for_want_of_a_second_verdict() -> None:
    bad = verdict(True, False, True, True)
    result = invoked(scripted(Verdict=[bad, GOOD, {}, {}, bad]), rounds=4)
    found = [(one.score, one.confirmed, one.slow) for one in rounds_of(result)]
    assert found == [(0.5, False, False), (1.0, False, False), (0.5, False, False), (0.5, False, False)]


def test_d4_the_answer_is_that_of_the_best_round() -> None:
    result = invoked(scripted(Verdict=[verdict(True, True, True, True), verdict(False, False, False, True)]), rounds=3)
    assert [one.score for one in rounds_of(result)] == [0.75, 0.0, 0.0]
    assert (result["answer"], result["figures"]["best"]) == ("answer 5", 0)


def test_d8_a_stop_ends_the_run_at_once() -> None:
    result = invoked(scripted(SlowUpdate=[{**NOTHING, "time_control": "stop"}]))
    assert (result["figures"]["stop"], result["figures"]["rounds"]) == ("stop", 2)


def test_d12_after_the_last_round_nobody_is_scored_or_coached_and_the_team_stays() -> None:
    last = rounds_of(invoked(scripted(), rounds=2))[-1]
    assert (last.contributions, last.mean, dict(last.notes), last.slow) == ((), None, {}, False)


@pytest.mark.parametrize("asked", ["What am I?", "How long is the bridge?"])
def test_d15_every_question_starts_with_the_same_team(asked: str) -> None:
    model = scripted()
    result = tacomas.build(model, config=TacomasConfig(rounds=1)).compile().invoke({"question": asked})
    assert model.objects == ["Checklist", "Verdict"]
    assert rounds_of(result)[0].topology == Tacomas().seed().topology


def test_d19_the_slow_loop_reads_the_work_of_the_last_round_and_the_scores_of_all() -> None:
    model = scripted()
    invoked(model, rounds=3)
    [shown] = [text for text in model.sent if "<scores>" in text]
    assert re.findall(r"answer \d+", section(shown, "trace"))[0] == "answer 6"
    assert section(shown, "scores") == "round 1: 0.50\nround 2: 0.50"
    assert section(shown, "agents").count("contributions, oldest first: 0.5, 0.5") == 3


def test_slow_again_brings_another_slow_update_after_the_next_round() -> None:
    again = {**NOTHING, "time_control": "slow_again"}
    result = invoked(scripted(SlowUpdate=[again, NOTHING]), rounds=6)
    assert [one.slow for one in rounds_of(result)] == [False, True, True, True, False, False]


def test_each_round_tells_its_goal_scores_contributions_edits_and_cost() -> None:
    first, second, third = rounds_of(invoked(scripted(), rounds=3))
    assert first.goal == "Answer the task."
    assert second.goal == "It is proven.; Make sure that this is not so: It is a guess."
    assert {one.agent: one.score for one in first.contributions} == dict(
        zip(NAMES, (0.5, 1.0, 0.0, 0.5, 0.5), strict=True)
    )
    assert first.mean == pytest.approx(0.5)
    assert [rewiring.operation for rewiring in second.applied] == ["EDGE_ADD"]
    assert (first.edges, third.edges) == (6, 7)
    assert (first.usage.calls, second.usage.calls, third.usage.calls) == (8, 9, 6)
    assert set(first.notes) == {"planner", "calculator", "verifier", "reflector"}  # the searcher's part was good


def test_d1_weights_order_the_messages_of_the_next_round() -> None:
    reader = "You verify the work of a team"

    def inboxes(config: TacomasConfig) -> list[list[str]]:
        model = scripted()
        tacomas.build(model, config=config).compile().invoke(ASKED)
        lines = [text.splitlines() for text in model.shown(reader)]
        return [[line for line in sent if line.startswith("From ")] for sent in lines]

    equal, weighed = inboxes(TacomasConfig(rounds=2))
    own = "From yourself, in the round before:"
    assert equal == ["From searcher:", "From calculator:"]
    assert weighed == ["From searcher:", "From calculator:", own]
    assert inboxes(TacomasConfig(rounds=2, capability=False)) == [equal, [*equal, own]]


def test_refinements_reach_the_next_round_and_no_other_question() -> None:
    model = scripted()
    graph = tacomas.build(model, config=TacomasConfig(rounds=2)).compile(checkpointer=InMemorySaver())
    first = graph.invoke(ASKED, on("1"))
    assert [no["change"] for no in first["rounds"][0]["refused"]] == ["advice for searcher"]  # who contributed enough
    coached = [said for said in model.spoken if "After round 1. Fault: sloppy Next: be exact Rule: prove it" in said]
    assert len(model.spoken) == 10
    assert [said.split(" of ")[0].split(".")[0] for said in model.spoken[5:] if said not in coached] == [
        "You are the searcher"
    ]
    assert len(coached) == 4
    model.spoken.clear()
    second = graph.invoke({"question": "And you?"}, on("1"))
    assert not any("After round 1" in said for said in model.spoken[:5])
    assert len(second["rounds"]) == 2
    assert "And you?" in model.sent[-1]


def cyclic() -> Team:
    start = Tacomas().seed()
    edges = (*start.topology.edges, Edge(source="reflector", target="searcher"))
    return start.replace(topology=start.topology.replace(edges=edges))


def test_a_cycle_delivers_in_the_next_round() -> None:
    model = scripted()
    tacomas.build(model, initial=cyclic(), config=TacomasConfig(rounds=2)).compile().invoke(ASKED)
    searcher = model.shown("You are the searcher")
    assert "From reflector:" not in searcher[0]
    assert "From reflector:\nanswer 5" in searcher[1]


def test_d23_a_round_begins_with_what_its_agents_wrote_and_the_best_answer() -> None:
    model = scripted(Verdict=[verdict(True, False, True, False), verdict(False, False, False, True)])
    tacomas.build(model, config=TacomasConfig(rounds=3)).compile().invoke(ASKED)
    planner = model.shown("You are the planner")
    assert "From yourself, in the round before:" not in planner[0]
    first = next(said for said in model.spoken if "planner" in said)
    assert all("From yourself, in the round before:" in text for text in planner[1:])
    assert first
    sink = model.shown("You give the team's final answer")
    assert ["From the team, its best answer so far:" in text for text in sink] == [False, False, True]


def test_d22_a_slow_update_that_stops_comes_before_a_coach_who_would_be_asked_for_nothing() -> None:
    model = scripted(SlowUpdate=[{**NOTHING, "time_control": "stop"}])
    first, last = rounds_of(invoked(model, rounds=6))
    assert first.notes
    assert (last.slow, dict(last.notes)) == (True, {})
    assert model.objects.count("Refinement") == 1


def test_d10_messages_to_the_dead_are_recorded_as_lost() -> None:
    death = {**NOTHING, "birth_death_pairs": [{"v_dead": "searcher", "v_new": None}]}
    graph = tacomas.build(
        scripted(SlowUpdate=[death, NOTHING]), initial=cyclic(), config=TacomasConfig(rounds=3, interval=1)
    ).compile()
    first, *_ = rounds_of(graph.invoke(ASKED))
    assert (first.deaths, first.lost) == (("searcher",), ("reflector->searcher",))


def test_d9_a_round_without_an_answer_has_no_score_and_the_run_goes_on() -> None:
    model = scripted()
    model.failing["You give the team's final answer"] = 1
    first, second = rounds_of(result := invoked(model, rounds=2))
    assert (first.answer, first.score) == (None, None)
    assert "sink 'reflector' failed" in (first.error or "")
    assert "reflector" not in {one.agent for one in first.contributions}
    assert second.score == 0.5
    assert result["answer"] is not None


def test_a_run_without_any_answer_says_why() -> None:
    model = scripted()
    model.failing["You give the team's final answer"] = 99
    result = invoked(model, rounds=2)
    assert result["answer"] is None
    assert "the provider is down" in result["error"]


def test_an_agent_without_a_place_has_no_share() -> None:
    idle = Agent(id="idle", prompt="You wait.")
    team = cyclic()
    spare = team.replace(agents=(*team.agents, idle))
    result = tacomas.build(scripted(), initial=spare, config=TacomasConfig(rounds=3)).compile().invoke(ASKED)
    assert set(result["weights"]) == set(NAMES)


def test_the_drawing_shows_the_figure_and_the_team() -> None:
    drawn = tacomas.build(scripted()).compile().get_graph(xray=True)
    assert {f"round:{name}" for name in NAMES} <= set(drawn.nodes)
    plain = {(edge.source, edge.target) for edge in tacomas.build(scripted()).compile().get_graph().edges}
    assert plain == {
        ("__start__", "init_graph"), ("init_graph", "round"), ("round", "judge"), ("judge", "refine"),
        ("judge", "__end__"), ("judge", "birth_death"), ("refine", "round"), ("refine", "__end__"),
        ("birth_death", "refine"), ("birth_death", "__end__"),
    }  # fmt: skip


def test_a_team_that_was_rewired_streams_its_new_nodes_and_is_drawn_right_after_the_run() -> None:
    critic = {"role": "critic", "goal": "You doubt.", "tools": []}
    swap = {**NOTHING, "birth_death_pairs": [{"v_dead": "searcher", "v_new": None}, {"v_dead": None, "v_new": critic}]}
    swap["graph_edit"] = [{"op": "edge_add", "source": "planner", "target": "critic"}]
    graph = tacomas.build(scripted(SlowUpdate=[swap, NOTHING]), config=TacomasConfig(rounds=3)).compile()
    inner, rounds, last = set[str](), list[set[str]](), dict[str, Any]()
    chunks: list[Any] = list(graph.stream(ASKED, subgraphs=True, stream_mode="updates"))
    for path, update in chunks:
        if path:
            inner |= {name for name in update if "@" not in name}  # without relays
        elif "round" in update:
            rounds.append(inner)
            inner = set()
        last |= {} if path else next(iter(update.values())) or {}
    assert rounds == [set(NAMES), set(NAMES), {*NAMES, "critic"} - {"searcher"}]
    ran = Topology.model_validate(last["figures"]["topology"])
    assert set(ran.agents) == rounds[-1]
    assert "critic" in to_mermaid(ran)
    drawn = [Topology.model_validate(one["topology"]) for one in last["rounds"]]
    assert [set(one.agents) for one in drawn] == rounds


async def test_it_resumes_after_a_round_that_was_interrupted() -> None:
    model = scripted()
    graph = tacomas.build(model, config=TacomasConfig(rounds=2)).compile(
        checkpointer=InMemorySaver(), interrupt_before=["judge"]
    )
    await graph.ainvoke(ASKED, on("1"))
    assert len(model.spoken) == 5
    while (await graph.aget_state(on("1"))).next:
        result = await graph.ainvoke(None, on("1"))
    assert len(model.spoken) == 10
    assert result["figures"]["stop"] == "rounds"


class Babbling(Script):
    garbage: str

    def _object(self, wish: str) -> Any:
        asked = "Reply with one JSON object" in wish or "valid" in wish
        return AIMessage(self.garbage) if asked else None


@pytest.mark.parametrize("garbage", ["-", "I cannot do that.", "[1, 2", '{"results": "all"}', "null"])
def test_a_meta_model_that_talks_garbage_changes_nothing(garbage: str) -> None:
    model = Babbling(script=SCRIPT, garbage=garbage)
    result = invoked(model, rounds=3)
    assert result["figures"]["calls"] == len(model.sent)
    assert sum(one.usage.calls for one in rounds_of(result)) == len(model.sent) - 2  # the checklist comes before them
    assert [one.score for one in rounds_of(result)] == [None] * 3
    assert result["answer"] == result["rounds"][-1]["answer"]
    assert Team.model_validate(result["workflow"]) == Tacomas().seed()
    assert "no valid reply" in rounds_of(result)[1].refused[0].reason
    assert result["weights"] == pytest.approx(dict.fromkeys(NAMES, 0.2))


# ---- the method ----


def make_ctx(method: Tacomas, model: Any, at: Scope = Scope(), toolbox: Mapping[str, Any] = FrozenMap()) -> Ctx[Any]:
    return method.make_ctx(MeteredModel(model), toolbox, HashingEmbedder(64), scope=at)


def test_it_is_a_method() -> None:
    method: Method[TacomasConfig] = Tacomas()
    assert method.name == "tacomas"
    assert method.propose_pruning(method.seed(), {}) is None


def test_the_largest_estimate_counts_who_may_be_born() -> None:
    def count_most(**fields: Any) -> float:
        config = TacomasConfig(slow=SlowConfig(**fields))
        return Tacomas.estimate_calls(config, Tacomas().seed(tools), 1, 0).most["agent"]

    tools = list[str]()
    assert count_most(pairs=0) == count_most(nodes=5) == 50
    assert count_most(pairs=1) == 50 + 2 * (1 + 2 + 3 + 4)
    assert count_most() == 50 + 2 * (2 + 4 + 6 + 8)
    assert count_most(nodes=7) == count_most(nodes=7, budgeted=False) == 50 + 2 * 8
    tools.append("search")
    assert count_most() - count_most(pairs=0) == 1.5 * 40


def told(done: Trajectory) -> Any:
    rounds = [{**one, "usage": None} for one in done.notes["rounds"]]
    return done.answer, [step.output for step in done.steps], rounds, done.notes["figures"]


async def test_the_offline_model_plays_every_part_and_the_same_seed_gives_the_same_run() -> None:
    bench = archive(40)
    tasks = bench.splits(0, train=20, gate=0, test=0).train
    question = next(task.question for task in tasks if task.kind == "bridge")
    method = Tacomas(rounds=3)
    start, ctx = method.seed(bench.tools), make_ctx(method, OfflineChat(), Scope(seed=1), bench.toolbox)
    one, two = [await method.answer(start, question, ctx) for _ in range(2)]
    assert told(one) == told(two)
    assert one.answer is not None
    assert one.question == question
    assert {step.visit for step in one.steps} == {one.notes["figures"]["best"]}
    assert one.usage.calls == one.notes["figures"]["calls"]
    assert one.workflow == start.fingerprint


async def test_lessons_are_off_by_default_and_reach_later_questions_where_they_are_on() -> None:
    question = Question(id="q", input="What am I?")

    async def twice(lessons: bool) -> tuple[Team, list[str]]:
        model = scripted(Verdict=[verdict(True, False, True, True)] * 2 + [verdict(True, True, True, True)])
        method = Tacomas(rounds=3, lessons=lessons)
        start, ctx = method.seed(), make_ctx(method, model)
        done = await method.answer(start, question, ctx)
        learned = (await method.propose(start, [done], ctx)).workflow
        model.sent.clear()
        await method.answer(learned, question, ctx.where(seed=1))
        return learned, [text for text in model.sent if "<lessons>" in text]

    learned, [shown] = await twice(lessons=True)
    assert "edge added searcher -> reflector: 1 times, mean change of the score +0.25" in shown
    assert learned.topology == Tacomas().seed().topology
    served = scripted()
    tacomas.build(served, initial=learned, config=TacomasConfig(rounds=3)).compile().invoke(ASKED)
    assert any("edge added searcher -> reflector: 1 times" in text for text in served.sent)
    unchanged, plain = await twice(lessons=False)
    assert unchanged == Tacomas().seed()
    assert plain == []


def trajectories(**fields: Any) -> tuple[Any, ...]:
    slow = {
        **NOTHING,
        "graph_edit": [
            {"op": "edge_add", "source": source, "target": target}
            for source, target in (
                ("planner", "verifier"), ("planner", "reflector"), ("reflector", "planner"),
                ("searcher", "reflector"), ("calculator", "reflector"), ("verifier", "planner"),
            )
        ],
        "agent_feedback": [{"agent": "planner", "prompt_delta": "Mind the commas.", "memory_seed": ""}],
    }  # fmt: skip
    model = scripted(SlowUpdate=[slow, NOTHING])
    result = invoked(model, rounds=4, **fields)
    return tuple(one.edges for one in rounds_of(result)), tuple(model.spoken), result["weights"]


def test_switches_change_the_trajectories() -> None:
    edges, _, weights = trajectories()
    assert edges == (6, 6, 10, 10)
    topology_only = trajectories(capability=False)
    assert topology_only[0] == edges
    assert not any("Notes from earlier work" in said or "Mind the commas" in said for said in topology_only[1])
    assert topology_only[2] == dict.fromkeys(NAMES, 0.2) != weights
    unweighted = trajectories(fast=FastConfig(rate=0))
    assert unweighted[2] == pytest.approx(topology_only[2])
    assert any("Notes from earlier work" in said for said in unweighted[1])
    unrefined = trajectories(fast=FastConfig(refines=False))
    assert (unrefined[0], unrefined[2]) == (edges, weights)
    assert not any("Notes from earlier work" in said for said in unrefined[1])
    assert any("Mind the commas" in said for said in unrefined[1])
    unheard = trajectories(slow=SlowConfig(feedback=False))
    assert (unheard[0], unheard[2]) == (edges, weights)
    assert not any("Mind the commas" in said for said in unheard[1])
    assert any("Notes from earlier work" in said for said in unheard[1])
    capability_only = trajectories(topology=False)
    assert capability_only[0] == (6, 6, 6, 6)
    assert capability_only[2] == pytest.approx(weights)
    one_time_scale = trajectories(interval=1)
    assert one_time_scale[0] == (6, 10, 10, 10)
    unbudgeted = trajectories(slow=SlowConfig(budgeted=False))
    assert unbudgeted[0] == (6, 6, 12, 12)


# ---- no labels ----


HOUSE = Path(__file__).parents[2]
SOURCES = [HOUSE / "graphs" / "tacomas.py", *sorted((HOUSE / "evolvers" / "tacomas").glob("*.py"))]
FORBIDDEN = {"Task", "Splits", "Environment", "Feedback"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_d3_nothing_of_the_method_can_hold_a_task(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not FORBIDDEN & (names | imported)
    assert not {"reference", "assess", "with_feedback"} & attributes
