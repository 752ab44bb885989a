"""Steps before and between the agents of a forward pass: profile, match, instruct (Alg. 2, App. D.3)."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ModelError, get_error_cost
from selfwire.core.protocols import Embedder, InstructionWriter
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import Id, to_plain_json
from selfwire.evolvers.hiva.kabb import TaskMatch
from selfwire.evolvers.hiva.knowledge import (
    TaskConcepts,
    concept_names,
    dependency_mismatch,
    expertise,
    history_mismatch,
    knowledge_match,
    semantic_mismatch,
    tool_mismatch,
)
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.evolvers.hiva.schemas import Instruction, TaskProfile
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import TASK_LENGTH, format_inbox, format_step, gather_all

SHOWN_CONCEPTS = 60
PROFILE = "@profile"
"""Node of the scope in which a task is characterised, no node's id. The phase stays, so that the task's budget pays."""
INPUT_LENGTH = 6_000


async def characterize_task(
    question: Question,
    team: Team,
    meta_model: PromptedModel,
    *,
    tools: Sequence[ToolSpec] = (),
    named: Collection[str] = (),
    scope: Scope,
) -> tuple[TaskConcepts, Usage]:
    """Characterise a task by concepts, required tools and parallelizability.

    Without a valid profile the concept is the benchmark's kind of question, with no tools and a parallelizability of
    0.5. Required tools that are not offered are dropped.

    Args:
        named: concepts that tasks of this batch were given, beside those of the team's memory.

    Raises:
        ModelError: as `Model.generate_structured`.
    """
    familiar = HivaMemory.of(team).get_familiar_concepts(SHOWN_CONCEPTS)
    steady = replace(meta_model, temperature=0.0, guide="")  # tasks of one sort shall get one name
    profile, usage = await steady.ask_or(
        None,
        TaskProfile,
        "profile",
        scope=scope.at(task=question.id, node=PROFILE),
        task=excerpt(question.input, TASK_LENGTH),
        tools="\n".join([f"{tool.name}: {tool.description}" for tool in tools]),
        known_concepts="\n".join([*dict.fromkeys((*familiar, *named))][:SHOWN_CONCEPTS]),
    )
    if profile is None:
        return TaskConcepts(main=next(iter(concept_names([question.kind])), "")), usage
    return _to_concepts(profile, {tool.name for tool in tools}), usage


def _to_concepts(profile: TaskProfile, offered: set[str]) -> TaskConcepts:
    main, *broader = concept_names([profile.main_concept, *profile.broader]) or ("",)
    return TaskConcepts(
        main=main,
        broader=tuple(broader),
        skills=tuple(skill for skill in concept_names(profile.concepts) if skill != main),
        tools=tuple(dict.fromkeys(tool for tool in profile.required_tools if tool in offered)),
        parallelizability=profile.parallelizability,
    )


async def match_task(concepts: TaskConcepts, team: Team, embedder: Embedder) -> TaskMatch:
    """Psi_1 to Psi_4 and KM of every agent for a task; all texts are embedded in one batch.

    Similarities are rounded to six decimals, so that a batch's size does not change a decision.
    """
    learned = HivaMemory.of(team)
    known = learned.knowledge.with_task(concepts).with_agents(team.agents, team.tools)
    purposes = {tool.name: tool.description for tool in team.tools}
    skills = [expertise(agent, purposes) for agent in team.agents]
    texts = [" ".join((concepts.main, *concepts.skills)).strip() or "task", *skills]
    vectors = await embedder.embed(texts)
    cosines = [round(float(vector @ vectors[0]), 6) for vector in vectors[1:]]
    return TaskMatch(
        concepts=concepts,
        depth=known.depth(concepts.main),
        indicators={
            agent.id: (
                semantic_mismatch(known.get_concepts(agent.id), concepts.all, cosine),
                dependency_mismatch(known.path(agent.id, concepts.main)),
                history_mismatch(*learned.similar_runs(agent.id, concepts)),
                tool_mismatch(agent.tools, concepts.tools),
            )
            for agent, cosine in zip(team.agents, cosines, strict=True)
        },
        matches={agent.id: knowledge_match(known.get_concepts(agent.id), concepts.all) for agent in team.agents},
    )


def to_notes(concepts: TaskConcepts | None) -> dict[str, Any]:
    """Notes of a trajectory on its task."""
    return {"concepts": concepts.model_dump(mode="json")} if concepts else {}


def get_concepts(trajectory: Trajectory) -> TaskConcepts | None:
    """The concepts noted of a run's task; None where it was not characterised."""
    noted = trajectory.notes.get("concepts")
    return TaskConcepts.model_validate(to_plain_json(noted)) if noted else None


async def match_noted(
    trajectory: Trajectory, team: Team, embedder: Embedder, find_copy: Callable[[str], str] = lambda text: ""
) -> TaskMatch | None:
    """The match of a run's task with the agents; None where it was not characterised.

    Args:
        find_copy: finds the passage of a text that copies a train task; such concepts are left out.
    """
    concepts = get_concepts(trajectory)
    return await match_task(concepts.without_copies(find_copy), team, embedder) if concepts else None


async def note_concepts(
    trajectories: Sequence[Trajectory],
    tasks: Collection[str],
    characterize: Callable[[Question, Collection[str]], Awaitable[tuple[TaskConcepts, Usage]]],
) -> tuple[tuple[Trajectory, ...], Usage]:
    """The trajectories, with concepts for those of `tasks` that were not characterised before they ran.

    The first goes alone; the others, together, read its concepts, so that alike tasks get the same names.
    """

    async def note(trajectory: Trajectory, named: Collection[str]) -> tuple[Trajectory, Usage]:
        try:
            concepts, usage = await characterize(trajectory.question, named)
        except ModelError as error:  # one task's failure does not stop what the others teach
            return trajectory, get_error_cost(error)
        return trajectory.replace(notes={**trajectory.notes, **to_notes(concepts)}), usage

    open_ones = [done for done in trajectories if done.question.id in tasks and get_concepts(done) is None]
    if not open_ones:
        return tuple(trajectories), Usage()
    first = await note(open_ones[0], ())
    known = get_concepts(first[0])
    found = [first, *await gather_all(note(done, sorted(known.all) if known else ()) for done in open_ones[1:])]
    noted = {id(done): after for done, (after, _) in zip(open_ones, found, strict=True)}
    return tuple(noted.get(id(done), done) for done in trajectories), sum_usages(usage for _, usage in found)


def make_instructor(team: Team, meta_model: PromptedModel) -> InstructionWriter:
    """Writes x_j = LLM(x_i, y_i, p_j) for each chosen successor where the work is shared out among several.

    The aggregator, and the only other successor of an agent, get y_i itself (D6).

    Passes on the output itself where the model gives no valid instruction.
    """
    shared = _list_shared(team)
    aggregator = team.agent_at(team.topology.sink).id

    async def instruct(question: Question, step: Step, successor: Agent, scope: Scope) -> tuple[str, Usage]:
        if successor.id == aggregator or step.node not in shared:
            return step.output, Usage()
        reply, usage = await meta_model.ask_or(
            Instruction(instruction=""),
            Instruction,
            "instruction",
            scope=scope,
            task=question.input,
            input=format_inbox(step, INPUT_LENGTH, about=step.output),
            output=format_step(step, INPUT_LENGTH, about=successor.prompt),
            successor=successor.prompt,
        )
        return reply.instruction.strip() or step.output, usage

    return instruct


def _list_shared(team: Team) -> dict[Id, list[Id]]:
    """Nodes with several successors beside the aggregator, and these."""
    topology = team.topology
    others = {node: [t for t in targets if t != topology.sink] for node, targets in topology.successors.items()}
    return {node: targets for node, targets in others.items() if len(targets) > 1}
