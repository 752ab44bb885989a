import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, ToolUse, Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.forward import (
    SHOWN_CONCEPTS,
    characterize_task,
    get_concepts,
    make_instructor,
    match_noted,
    match_task,
    note_concepts,
    to_notes,
)
from selfwire.evolvers.hiva.knowledge import Knowledge, TaskConcepts
from selfwire.evolvers.hiva.memory import HivaMemory, TrajectoryLesson
from selfwire.evolvers.hiva.schemas import Instruction, TaskProfile
from selfwire.models.embeddings import HashingEmbedder
from tests.evolvers.hiva.doubles import meta_model, team
from tests.scripted import ONE_CALL, ScriptedModel

TEAM = team(("s", "a"), ("a", "end"), a="You do entity lookup.")
QUESTION = Question(id="t1", input="Which year?", kind="bridge")
SEARCH = ToolSpec(name="search", description="Finds documents.", parameters={})
CONCEPTS = TaskConcepts(main="bridge question", skills=("entity lookup",), tools=("search",))
BLANK = TaskProfile(main_concept="x", broader=[], concepts=[], required_tools=[], parallelizability=0)


class Letters:
    name = "letters"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.batches.append(list(texts))
        rows = np.array([[text.count("a") + 1, text.count("e")] for text in texts], dtype=np.float32)
        units: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return units


async def test_a_profile_is_normalised_and_its_unknown_tools_are_dropped() -> None:
    asked = TaskProfile(
        main_concept="Bridge Questions",
        broader=["Questions", "bridge question"],
        concepts=["Entity look-up", "bridge question"],
        required_tools=["search", "rm", "search"],
        parallelizability=0.3,
    )
    model = ScriptedModel(TaskProfile=asked)
    scope = Scope(iteration=2, phase="rollout")
    found, usage = await characterize_task(QUESTION, TEAM, meta_model(model), tools=[SEARCH], scope=scope)
    assert found == TaskConcepts(
        main="bridge question", broader=("question",), skills=("entity look up",), tools=("search",),
        parallelizability=0.3,
    )  # fmt: skip
    assert usage == ONE_CALL
    assert "search: Finds documents." in model.shown("TaskProfile")[0]
    # the phase is the caller's: the task's share of the budget is found by iteration, phase and task
    assert model.asked[0][2] == Scope(iteration=2, phase="rollout", task="t1", node="@profile")


async def test_a_task_is_characterised_without_chance_so_that_tasks_of_one_sort_get_one_name() -> None:
    temperatures, systems = list[float](), list[str]()

    class Watched(ScriptedModel):
        async def generate_structured(self, *asked: Any, **more: Any) -> tuple[Any, Usage]:
            temperatures.append(more["temperature"])
            systems.append(asked[1][0].content)
            return await super().generate_structured(*asked, **more)

    model = Watched(TaskProfile=BLANK)
    guided = replace(meta_model(model), guide="keep the tone formal")
    await characterize_task(QUESTION, TEAM, guided, scope=Scope())
    assert temperatures == [0.0]
    assert "names exactly this sort, return it unchanged" in model.shown("TaskProfile")[0]
    assert "keep the tone formal" not in systems[0]  # it is for changes, and is not known where a task is routed


async def test_a_profile_shows_the_concepts_that_are_known() -> None:
    taught = HivaMemory().update(
        [TrajectoryLesson(task="t", solved=True, rewards={}, concepts=CONCEPTS)], config=KabbConfig()
    )
    model = ScriptedModel(TaskProfile=BLANK)
    await characterize_task(QUESTION, taught.save_to(TEAM), meta_model(model), scope=Scope())
    assert "bridge question\nentity lookup" in model.shown("TaskProfile")[0]


async def test_of_many_known_concepts_a_profile_shows_the_familiar_ones() -> None:
    many = tuple(f"concept {i:03}" for i in range(2 * SHOWN_CONCEPTS))
    once, often = CONCEPTS.replace(skills=many), CONCEPTS.replace(skills=many[-3:])
    lessons = [TrajectoryLesson(task="t", solved=True, rewards={}, concepts=concepts) for concepts in (once, often)]
    model = ScriptedModel(TaskProfile=BLANK)
    taught = HivaMemory().update(lessons, config=KabbConfig()).save_to(TEAM)
    await characterize_task(QUESTION, taught, meta_model(model), scope=Scope())
    shown = model.shown("TaskProfile")[0]
    assert f"bridge question\n{many[-3]}\n{many[-2]}\n{many[-1]}\n{many[0]}" in shown
    assert shown.count("concept 0") + shown.count("concept 1") == SHOWN_CONCEPTS - 1


async def test_without_a_valid_profile_the_kind_of_question_serves_but_not_where_the_model_fails() -> None:
    model = ScriptedModel(TaskProfile=ReplyError("bad"))
    assert await characterize_task(QUESTION, TEAM, meta_model(model), scope=Scope()) == (
        TaskConcepts(main="bridge"),
        Usage(),
    )
    with pytest.raises(ModelError):
        await characterize_task(
            QUESTION, TEAM, meta_model(ScriptedModel(TaskProfile=ModelError("down"))), scope=Scope()
        )


async def test_a_match_embeds_once_and_knows_every_agent() -> None:
    embedder = Letters()
    found = await match_task(CONCEPTS, TEAM, embedder)
    assert len(embedder.batches) == 1
    assert embedder.batches[0][0] == "bridge question entity lookup"
    assert set(found.indicators) == {"s", "a", "end"}
    assert found.depth == 1
    assert found.matches == {"s": 0.0, "a": 0.5, "end": 0.0}
    one, two, three, four = found.of("a")
    cosine = (1 * 1 + 3 * 1) / (10**0.5 * 2**0.5)  # (1, 3) for the task, (1, 1) for the agent
    assert one == pytest.approx((0.5 + 1 - cosine) / 2, abs=1e-6)  # Jaccard distance of 1 in 2 concepts
    assert two == pytest.approx(2 / 6)
    assert (three, four) == (0.5, 1.0)
    assert found.of("s")[1] == 1.0
    assert found.of("a")[0] < found.of("s")[0]
    assert type(found).model_validate_json(found.model_dump_json()) == found


async def test_d26_only_the_task_and_the_agents_are_embedded_and_concepts_are_found_by_their_words() -> None:
    grown = HivaMemory().replace(knowledge=Knowledge().with_task(CONCEPTS.replace(broader=("question",))))
    embedder = Letters()
    found = await match_task(CONCEPTS, grown.save_to(TEAM), embedder)
    assert [len(batch) for batch in embedder.batches] == [1 + len(TEAM.agents)]
    assert found.matches["a"] == 0.5
    reworded = TEAM.replace(agents=[one.replace(prompt="You look entities up.") for one in TEAM.agents])
    assert set((await match_task(CONCEPTS, reworded, embedder)).matches.values()) == {0.0}


STEP = Step(
    node="s",
    agent="s",
    inbox=(Message(source="q", target="s", text="given"),),
    output="found <output>it</output>",
    tools=(ToolUse(name="search", arguments={"q": "it"}, result="a page"),),
)


SHARED = team(("s", "a"), ("s", "b"), ("a", "end"), ("b", "end"), a="You do entity lookup.")


async def test_a_successor_gets_an_instruction_made_of_input_output_and_its_prompt() -> None:
    model = ScriptedModel(Instruction=Instruction(instruction=" Go on. "))
    instruct = make_instructor(SHARED, meta_model(model))
    text, usage = await instruct(QUESTION, STEP, SHARED.agents_by_id["a"], Scope(node="s>a", phase="rollout"))
    assert (text, usage) == ("Go on.", ONE_CALL)
    shown = model.shown("Instruction")[0]
    assert model.asked[0][2] == Scope(node="s>a", phase="rollout")
    assert "<input>\nFrom q:\ngiven\n</input>" in shown
    assert "<successor>\nYou do entity lookup.\n</successor>" in shown
    assert "a page" in shown
    assert shown.count("</output>") == 1  # an output cannot close its own section


async def test_d6_the_aggregator_and_an_only_successor_get_the_output_itself() -> None:
    beside = team(("s", "a"), ("s", "end"), ("a", "end"))
    for workflow, name in ((TEAM, "end"), (SHARED, "end"), (TEAM, "a"), (beside, "a")):
        model = ScriptedModel()
        successor = workflow.agents_by_id[name]
        text, usage = await make_instructor(workflow, meta_model(model))(QUESTION, STEP, successor, Scope())
        assert (text, usage) == (STEP.output, Usage())
        assert not model.asked


@pytest.mark.parametrize("answer", [ReplyError("bad"), Instruction(instruction="  ")])
async def test_without_a_valid_instruction_the_output_is_handed_on(answer: ReplyError | Instruction) -> None:
    instruct = make_instructor(SHARED, meta_model(ScriptedModel(Instruction=answer)))
    assert (await instruct(QUESTION, STEP, SHARED.agents_by_id["a"], Scope()))[0] == STEP.output


async def test_tasks_of_a_batch_read_the_concepts_of_the_first() -> None:
    first = TaskProfile(
        main_concept="bridge question", broader=[], concepts=["date arithmetic"], required_tools=[],
        parallelizability=0,
    )  # fmt: skip
    model = ScriptedModel(TaskProfile=first)
    runs = [Trajectory(question=QUESTION.replace(id=f"t{n}"), workflow=TEAM.fingerprint) for n in range(3)]
    together = asyncio.Barrier(2)

    async def characterize(question: Question, named: Collection[str]) -> tuple[TaskConcepts, Usage]:
        if named:
            await asyncio.wait_for(together.wait(), 5)
        return await characterize_task(question, TEAM, meta_model(model), named=named, scope=Scope())

    noted, usage = await note_concepts(runs, {"t0", "t1", "t2"}, characterize)
    assert [get_concepts(done) is not None for done in noted] == [True] * 3
    assert usage.calls == 3
    known = [shown.partition("<known_concepts>")[2] for shown in model.shown("TaskProfile")]
    assert ["bridge question" in text for text in known] == [False, True, True]


async def test_concepts_that_copy_from_a_task_are_not_learned() -> None:
    noted = TaskConcepts(main="locksmith of arlsund", broader=("trades", "arlsund"), skills=("dates", "arlsund"))
    done = Trajectory(question=Question(id="q", input="Who?"), workflow="w", notes=to_notes(noted))
    found = await match_noted(
        done, team(("a", "end")), HashingEmbedder(), lambda text: "arlsund" if "arlsund" in text else ""
    )
    assert found is not None
    assert found.concepts == TaskConcepts(broader=("trades",), skills=("dates",))
