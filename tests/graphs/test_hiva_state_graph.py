"""HiVA's machine as people use it: built in Python, invoked, streamed, stopped and gone on with."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from selfwire.core.errors import ConfigError, ModelError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge
from selfwire.core.trajectory import Routing, Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import note_concepts
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.memory import EdgeRecord, HivaMemory
from selfwire.graphs import hiva
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.graphs.hiva import Hiva, name_concepts
from selfwire.graphs.rollouts import run_together
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from tests.core.generators import make_tool
from tests.graphs.scripted import (
    AGGREGATOR,
    ASKED,
    EVOLVE,
    FORMS,
    SCRIPT,
    SOURCE,
    ScriptedChat,
    built,
    fork,
    on,
    run,
    trio,
)  # fmt: skip
from tests.request_parts import read_messages


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    if request.param == "memory":
        yield InMemorySaver()
    else:
        opened = sqlite_saver(tmp_path / "threads.sqlite")
        yield opened
        opened.conn.close()


class Reading(ScriptedChat):
    """Keeps what everybody reads."""

    read: list[str] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        self.read.append("\n".join(message.text for message in messages))
        return super()._generate(messages, *args, **options)


class Judge:
    def __init__(self, satisfied_at: int) -> None:
        self.satisfied_at = satisfied_at
        self.seen: list[tuple[str, str]] = []

    async def __call__(self, question: Question, answer: str, scope: Scope) -> Feedback:
        self.seen.append((question.input, answer))
        solved = len(self.seen) >= self.satisfied_at
        return Feedback(score=float(solved), solved=solved, text="right" if solved else "wrong")


def team_of(graph: Any) -> set[str]:
    nodes = graph.get_graph(xray=True).nodes
    return {name.removeprefix("forward:") for name in nodes if name.startswith("forward:")}


@FORMS
async def test_the_offline_model_runs_and_evolves_without_a_key(form: str) -> None:
    graph = hiva.build(model="offline").compile()
    result = await run(form, graph, ASKED, context={"evolve": True, "iterations": 2})
    assert result["answer"]
    assert result["iteration"] >= 1


def test_without_evolution_nothing_is_learned_and_inner_steps_are_streamed() -> None:
    graph = built(ScriptedChat(), initial=trio()).compile()
    chunks: list[Any] = list(graph.stream(ASKED, subgraphs=True, stream_mode="updates"))
    assert [node for path, update in chunks if path for node in update] == ["source", "checker", "aggregator"]
    assert [node for path, update in chunks if not path for node in update] == ["begin", "forward"]
    result = graph.invoke(ASKED)
    assert Team.model_validate(result["workflow"]) == trio()
    assert (result["iteration"], result["oracle"]) == (0, False)


def test_without_an_environment_the_team_learns_from_its_own_criticism() -> None:
    result = built(ScriptedChat()).compile().invoke(ASKED, context=EVOLVE)
    seed, evolved = hiva.build().compile().invoke(ASKED)["workflow"], Team.model_validate(result["workflow"])
    assert len(evolved.topology.nodes) == 3
    assert evolved.agents_by_id["source"].prompt == "You work exactly."
    assert evolved.lineage.parent == Team.model_validate(seed).fingerprint
    assert result["oracle"] is False


@FORMS
async def test_with_an_environment_it_evolves_until_the_answer_is_right(form: str) -> None:
    judge = Judge(satisfied_at=2)
    graph = built(ScriptedChat(), grader=judge).compile()
    result = await run(form, graph, ASKED, context=hiva.HivaContext(evolve=True, iterations=5))
    assert judge.seen == [("What am I?", "answer 2"), ("What am I?", "answer 5")]
    assert result["answer"] == "answer 5"
    assert (result["solved"], result["iteration"], result["oracle"]) == (True, 2, True)
    assert result["workflow"]["lineage"]["rewirings"] == []  # those of the last round, which rewrote nothing


def test_without_env_nobody_asks_the_environment() -> None:
    judge = Judge(satisfied_at=1)
    graph = built(ScriptedChat(), grader=judge, config=HivaConfig(environment=False)).compile()
    result = graph.invoke(ASKED, context={**EVOLVE, "iterations": 2})
    assert judge.seen == []
    assert (result["oracle"], result["solved"], result["iteration"]) == (False, False, 2)


@pytest.mark.parametrize("environment", [True, False])
async def test_without_env_no_prompt_of_an_evolution_holds_the_verdict(environment: bool) -> None:
    model, method = Reading(), Hiva(environment=environment)
    ctx = method.make_ctx(MeteredModel(model), {}, HashingEmbedder())
    done = await method.answer(trio(), Question(id="t", input="What?"), ctx.where(phase="rollout"))
    graded = done.with_feedback(Feedback(score=0.37, solved=False, text="The year is wrong."))
    found = await method.propose(trio(), [graded], ctx.where(phase="evolve"))
    assert found.applied
    assert {"AgentGradient", "PromptRewrite", "TopologyDecision"} <= set(model.objects)
    holding = [text for text in model.read if "The year is wrong." in text or "0.37" in text]
    assert bool(holding) is environment


@pytest.mark.parametrize("environment", [True, False])
async def test_without_env_held_out_verdicts_teach_nothing(environment: bool) -> None:
    method = Hiva(environment=environment)
    ctx = method.make_ctx(MeteredModel(ScriptedChat()), {}, HashingEmbedder())
    done = Trajectory(
        question=Question(id="t", input="What?"),
        workflow="w",
        steps=(Step(node="source", agent="source", output="x"),),
        answer="x",
        feedback=Feedback(score=1, solved=True, text="right"),
        notes={"concepts": TaskConcepts(main="riddle").model_dump(mode="json")},
    )
    taught = await method.fit(trio(), [done], ctx)
    assert bool(HivaMemory.of(taught).evidence) is environment
    assert method.sees_labels is environment
    assert method.fits(fork()) is environment
    assert not method.fits(trio())  # nobody has a choice that omega could weigh


async def test_what_was_left_out_and_what_reflection_cost_is_noted() -> None:
    model, method = ScriptedChat(), Hiva()
    ctx = method.make_ctx(MeteredModel(model), {}, HashingEmbedder())
    done = await method.answer(trio(), Question(id="t", input="What?"), ctx.where(phase="rollout"))
    graded = done.with_feedback(Feedback(score=0, solved=False, text="wrong"))
    [first, *others] = graded.steps
    limited = first.replace(routing=Routing(chosen=("checker",), why="KABB, best 2 of 2; 3 beyond mismatch 0.75"))
    before = len(model.objects)
    batch = [graded.replace(steps=[limited, *others])]
    evolved = await method.propose(trio(), batch, ctx.where(phase="evolve"))
    assert evolved.notes["left_out"] == 3
    assert evolved.notes["meta"]["calls"] == len(model.objects) - before > 3


async def test_who_rewrites_a_prompt_knows_the_tool_that_was_granted_in_the_same_step() -> None:
    blame = {**SCRIPT["AgentGradient"], "tool_feedback": "it cannot add", "concerns": "semantics"}
    granted = {"operation": "GRANT_TOOL", "tool": "add", "reason": "it cannot add"}
    model = Reading(script={**SCRIPT, "AgentGradient": blame, "ToolDecision": granted})
    method, team = Hiva(), trio().replace(tools=(make_tool("add"),))
    ctx = method.make_ctx(MeteredModel(model), {}, HashingEmbedder())
    done = await method.answer(team, Question(id="t", input="What?"), ctx.where(phase="rollout"))
    graded = done.with_feedback(Feedback(score=0, solved=False, text="wrong"))
    evolved = (await method.propose(team, [graded], ctx.where(phase="evolve"))).workflow
    assert evolved.agents_by_id["checker"].tools == ("add",)
    told = [text for text in model.read if "PromptRewrite" in text and "You are the checker." in text]
    assert told
    assert all("add (the team's own): Adds to a number." in text for text in told)


def test_it_stops_after_the_rounds_that_were_allowed() -> None:
    judge = Judge(satisfied_at=99)
    result = built(ScriptedChat(), grader=judge).compile().invoke(ASKED, context={**EVOLVE, "iterations": 3})
    assert (len(judge.seen), result["iteration"], result["solved"]) == (3, 3, False)


@FORMS
async def test_a_thread_keeps_what_it_has_evolved(form: str, saver: BaseCheckpointSaver[Any]) -> None:
    model = ScriptedChat()
    graph = built(model).compile(checkpointer=saver)
    first = await run(form, graph, ASKED, on("1"), context=EVOLVE)
    model.spoken.clear()
    second = await run(form, graph, {"question": "And you?"}, on("1"))
    assert second["workflow"] == first["workflow"]
    first_sentences = [system.split(".")[0] for system in model.spoken]
    assert first_sentences == ["You work exactly", "You check what others found", "You work exactly"]
    other = await run(form, graph, ASKED, on("2"))
    assert len(other["workflow"]["topology"]["nodes"]) == 2


async def test_beliefs_decay_from_question_to_question_of_a_thread() -> None:
    graph = built(ScriptedChat(), grader=Judge(satisfied_at=1)).compile(checkpointer=InMemorySaver())
    learned = [graph.invoke(ASKED, on("1"), context=EVOLVE)["workflow"]["memory"]["hiva"] for _ in range(2)]
    assert [one["iteration"] for one in learned] == [0, 1]
    assert learned[1]["beliefs"] != learned[0]["beliefs"]


def test_a_question_that_is_put_twice_is_answered_twice() -> None:
    graph = built(ScriptedChat()).compile(checkpointer=InMemorySaver())
    assert [graph.invoke(ASKED, on("1"))["answer"] for _ in range(2)] == ["answer 2", "answer 4"]


def test_the_team_is_drawn_and_the_evolved_one_after_it() -> None:
    graph = built(ScriptedChat())
    assert team_of(graph.compile()) == {"source", "aggregator"}
    evolved = Team.model_validate(graph.compile().invoke(ASKED, context=EVOLVE)["workflow"])
    assert team_of(hiva.build(initial=evolved).compile()) == set(evolved.topology.agents)
    assert len(evolved.topology.agents) == 3


@FORMS
@pytest.mark.parametrize("failing", [SOURCE, AGGREGATOR])
async def test_a_team_without_an_answer_is_an_error_that_can_be_retried(
    form: str, failing: str, saver: BaseCheckpointSaver[Any]
) -> None:
    model = ScriptedChat(failing={failing: 2})
    graph = built(model).compile(checkpointer=saver)
    for given in (ASKED, None):
        with pytest.raises(TaskError, match=r"the provider is down.*retry"):
            await run(form, graph, given, on("1"))
    result = await run(form, graph, None, on("1"))
    assert result["answer"] == f"answer {len(model.spoken)}"
    assert (await run(form, graph, {"question": "And now?"}, on("1")))["answer"] == f"answer {len(model.spoken)}"


async def test_d21_a_task_is_characterised_once_and_only_where_the_bandit_has_a_choice() -> None:
    model = ScriptedChat()
    result = built(model, initial=trio(), grader=Judge(satisfied_at=99)).compile().invoke(ASKED, context=EVOLVE)
    assert model.objects.count("TaskProfile") == 1  # f_G weighs ADD_PARALLEL
    assert result["trajectories"][0]["notes"]["concepts"]["main"] == "riddle"
    forked = ScriptedChat()
    context = {**EVOLVE, "iterations": 3}
    again = built(forked, initial=fork(), grader=Judge(satisfied_at=99)).compile().invoke(ASKED, context=context)
    assert (forked.objects.count("TaskProfile"), again["iteration"]) == (1, 3)
    assert forked.objects[0] == "TaskProfile"
    unrouted = ScriptedChat()
    built(unrouted, initial=fork(), config=HivaConfig(kabb=False)).compile().invoke(ASKED)
    assert "TaskProfile" not in unrouted.objects


def test_what_was_learned_decides_an_answer_only_where_the_bandit_has_a_choice() -> None:
    assert not Hiva().reads_memory(trio())
    assert Hiva().reads_memory(fork())
    assert not Hiva(kabb=False).reads_memory(fork())
    assert Hiva(router="learned").reads_memory(fork())


class Listening(ScriptedChat):
    """Keeps what agents are told beside their prompts."""

    told: list[str] = Field(default_factory=list)

    def _answer(self, messages: list[BaseMessage], tools: Any) -> AIMessage:
        self.told.append(messages[1].text)
        return super()._answer(messages, tools)


def test_d22_every_agent_of_a_chain_reads_the_whole_task_beside_the_output_before() -> None:
    model = Listening()
    built(model, initial=trio()).compile().invoke(ASKED)
    assert all(told.startswith("<task>\nWhat am I?\n</task>\n\n") for told in model.told)
    assert [read_messages(told) for told in model.told] == ["", "From source:\nanswer 1", "From checker:\nanswer 2"]


def test_d23_an_agent_with_other_successors_reports_to_the_aggregator_too() -> None:
    model = Listening()
    direct = trio().topology.replace(edges=[*trio().topology.edges, Edge(source="source", target="aggregator")])
    built(model, initial=trio().replace(topology=direct)).compile().invoke(ASKED)
    assert read_messages(model.told[-1]) == "From source:\nanswer 1\n\nFrom checker:\nanswer 2"


def with_failing_edge(runs: int) -> Team:
    """The fork of a team that often succeeds, but never over source -> checker."""
    records = {"source->checker": EdgeRecord(solved=0, runs=runs)}
    return HivaMemory(edges=records, solved=20, runs=30).save_to(fork())


def edges(result: Any) -> set[str]:
    return {str(edge) for edge in Team.model_validate(result["workflow"]).topology.edges}


@pytest.mark.parametrize(("runs", "satisfied_at"), [(7, 99), (9, 1)])
def test_repair_follows_the_update_in_every_round_and_goes_by_what_it_has_taught(runs: int, satisfied_at: int) -> None:
    script = {**SCRIPT, "TopologyDecision": {"operation": "NO_CHANGE"}}
    graph = built(ScriptedChat(script=script), initial=with_failing_edge(runs), grader=Judge(satisfied_at)).compile()
    chunks: list[Any] = list(graph.stream(ASKED, context=EVOLVE, stream_mode="updates"))
    assert [node for update in chunks for node in update][-2:] == ["update_beliefs", "repair"]
    result = chunks[-1]["repair"]
    assert edges(result) == {"source->doubter", "doubter->aggregator"}
    assert result["workflow"]["lineage"]["rewirings"][-1]["operation"] == "REPAIR"
    learned = HivaMemory.of(Team.model_validate(result["workflow"]))
    assert (set(learned.edges), set(learned.beliefs)) == (edges(result), {"source", "doubter", "aggregator"})
    assert learned.retired.edges["source->checker"].runs == runs + 1


def test_without_tev_the_topology_stays_whatever_its_edges_have_come_to() -> None:
    config = HivaConfig(topology_evolution=False)
    graph = built(ScriptedChat(), initial=with_failing_edge(9), grader=Judge(satisfied_at=99), config=config)
    assert edges(graph.compile().invoke(ASKED, context=EVOLVE)) == {str(edge) for edge in fork().topology.edges}


def test_the_result_says_what_the_question_has_cost() -> None:
    graph = built(ScriptedChat()).compile()
    assert graph.invoke(ASKED)["usage"]["calls"] == 2
    assert graph.invoke(ASKED, context=EVOLVE)["usage"]["calls"] > 6


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"iterations": 0}, "iterations.*greater than or equal to 1"),
        ({"evolv": True}, "evolv: there is no such field.*choices are .*evolve, iterations"),
        ({"calls": "many"}, "calls: .*integer"),
        ({"model": "gpt"}, "unknown model 'gpt'"),
        ({"workflow": "best"}, "'best' cannot be looked up"),
        ({"evolve": True, "prompt_source": "You are brief."}, "source are edited for this run only"),
    ],
)
def test_a_choice_that_cannot_be_is_one_clear_error(context: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(ScriptedChat()).compile().invoke(ASKED, context=context)


def test_a_prompt_of_an_agent_that_is_gone_cannot_be_edited() -> None:
    graph = built(ScriptedChat(), initial=trio()).compile(checkpointer=InMemorySaver())
    seed = hiva.build().compile().invoke(ASKED)["workflow"]
    graph.update_state(on("1"), {"workflow": seed}, as_node="begin")
    with pytest.raises(ConfigError, match="no checker; agents are aggregator, source"):
        graph.invoke(ASKED, on("1"), context={"prompt_checker": "You doubt."})


def test_a_run_may_choose_another_model() -> None:
    model = ScriptedChat()
    result = built(model).compile().invoke(ASKED, context={"model": "offline"})
    assert result["answer"].startswith("Answer:")
    assert model.spoken == []


async def test_a_task_that_cannot_be_characterised_afterwards_is_left_as_it_is() -> None:
    class Down(MeteredModel):
        async def generate_structured(self, *args: Any, **kwargs: Any) -> Any:
            raise ModelError("the provider is down")

    done = Trajectory(question=Question(id="q", input="What am I?"), workflow=trio().fingerprint)
    ctx = Hiva().make_ctx(Down(ScriptedChat()), {}, HashingEmbedder())

    async def characterize(question: Question, named: Collection[str]) -> tuple[TaskConcepts, Usage]:
        return await name_concepts(question, trio(), ctx, named)

    assert await note_concepts([done], {"q"}, characterize) == ((done,), Usage())


async def test_an_error_of_a_worker_is_the_runs_own_and_a_bug_comes_first() -> None:
    async def fail(error: Exception) -> None:
        raise error

    with pytest.raises(TaskError, match="no answer"):
        await run_together([fail(TaskError("no answer"))])
    with pytest.raises(KeyError, match="bug"):
        await run_together([fail(TaskError("no answer")), fail(KeyError("bug"))])
