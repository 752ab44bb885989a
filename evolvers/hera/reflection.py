"""Insights of mixed groups, and their way into the library (ReflectOnGroup; Alg. 3)."""

import re
from collections.abc import Callable, Sequence

from selfwire.core.errors import ModelError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.text import excerpt, mark_earlier
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, to_plain_json
from selfwire.evolvers.hera.groups import Group
from selfwire.evolvers.hera.library import (
    TEXT_LENGTH,
    ExperienceLibrary,
    Insight,
    InsightSource,
    LibraryConfig,
    Profile,
    add_insight,
    find_matching,
    find_prunable,
    make_insight,
    merge_insights,
    parse_query_type,
    remove_insights,
)
from selfwire.evolvers.hera.schemas import LibraryOperation, LibraryOperations, Operation, Reflection
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import count_agent_tokens, format_trace, get_score, render_topology

GROUP_LENGTH = 16_000
ANSWER_LENGTH = 600
INSIGHTS = 5  # most insights that one group may teach


class InsightChange(FrozenModel):
    """The fate of one new insight; `targets` are ids of entries, `why` may say why another operation was applied."""

    operation: Operation
    insight: str
    targets: tuple[str, ...] = ()
    why: str = ""


def get_profile(trajectory: Trajectory) -> Profile | None:
    """The profile noted for a trajectory's question; None where it was not characterised."""
    noted = trajectory.notes.get("profile")
    return Profile.model_validate(to_plain_json(noted)) if noted else None


def get_topology(trajectory: Trajectory) -> Topology | None:
    """The topology that a trajectory ran; None where it was not noted."""
    noted = trajectory.notes.get("topology")
    return Topology.model_validate(to_plain_json(noted)) if noted else None


async def reflect_on_group(
    group: Group,
    trajectories: Sequence[Trajectory],
    profile: Profile,
    orchestrator: PromptedModel,
    *,
    success_at: float,
    iteration: int,
    scope: Scope,
) -> tuple[tuple[Insight, ...], Usage]:
    """ReflectOnGroup: the insights of a mixed group; none without a valid reply.

    Args:
        profile: of the group's question.
        success_at: score from which a run counts as a success, in [0, 1].
    """
    best = trajectories[group.order[0]]
    reply, usage = await orchestrator.ask_or(
        Reflection(),
        Reflection,
        "reflect",
        scope=scope.at(task=group.question, node="reflect"),
        catch=ModelError,
        task=best.question.input,
        profile=profile.text,
        group="\n\n".join(
            mark_earlier(
                (
                    f"(the same as in trajectory {rank})",
                    render_trajectory(trajectories[index], rank, GROUP_LENGTH // len(group.order), success_at),
                    [trajectories[index].answer or ""],
                )
                for rank, index in enumerate(group.order, 1)
            )
        ),
    )
    samples = [trajectories[at].sample for at in sorted(group.order)]
    sources = [InsightSource(question=group.question, sample=sample, iteration=iteration) for sample in samples]
    insights = [
        make_insight(profile.replace(type=parse_query_type(new.query_type) or profile.type), new.insight, sources)
        for new in reply.insights[:INSIGHTS]
    ]
    return tuple(insight for insight in insights if insight), usage


def render_trajectory(trajectory: Trajectory, rank: int, length: int, success_at: float) -> str:
    """Render a trajectory in about `length`: outcome, tokens, feedback, topology, the work of each agent."""
    score = get_score(trajectory) or 0.0
    outcome = "a success" if score >= success_at else "a failure"
    said = " ".join(trajectory.feedback.text.split()) if trajectory.feedback else ""
    feedback = f"feedback: {said}\n" if said else ""
    return (
        f"trajectory {rank}: {outcome}, score {score:.2f}, {count_agent_tokens(trajectory)} tokens\n"
        f"{feedback}topology: {render_plan(trajectory)}\n"
        f"{format_trace(trajectory, answer='(the final answer)', length=length)}\n"
        f"final answer: {excerpt((trajectory.answer or '').strip(), ANSWER_LENGTH)}"
    )


def render_plan(trajectory: Trajectory) -> str:
    """The topology that a trajectory ran, in one line."""
    topology = get_topology(trajectory)
    if topology is None:
        return ", ".join(step.node for step in trajectory.steps)
    return render_topology(topology).replace("\n", "; ")


async def consolidate_insights(
    library: ExperienceLibrary,
    new: Sequence[Insight],
    orchestrator: PromptedModel,
    embedder: Embedder,
    config: LibraryConfig,
    *,
    find_copy: Callable[[str], str] = lambda text: "",
    scope: Scope,
) -> tuple[ExperienceLibrary, tuple[InsightChange, ...], Usage]:
    """ExperienceLibraryUpdate: ADD insights without matches; the model decides about the others.

    Args:
        find_copy: finds the passage of a text that copies a train task; such insights and merged texts are left out.
    """
    copies = {insight.text: passage for insight in new if (passage := find_copy(insight.text))}
    new = [_without_copied_summary(insight, find_copy) for insight in new if insight.text not in copies]
    matches = {insight.id: await find_matching(library, insight, embedder, config) for insight in new}
    met = [insight for insight in new if matches[insight.id]]
    wanted, usage = await _ask_operations(met, matches, orchestrator, scope) if met else ({}, Usage())
    changes = [
        InsightChange(operation="KEEP", insight=text, why=f"left out, as it copies from a train task: {passage!r}")
        for text, passage in copies.items()
    ]
    for insight in new:
        if not matches[insight.id]:
            library, change = _add(library, insight, "it matches no entry", config)
        else:
            operation = wanted.get(insight.text)
            library, change = apply_operation(library, insight, matches[insight.id], operation, config, find_copy)
        changes.append(change)
    return library, tuple(changes), usage


def _without_copied_summary(insight: Insight, find_copy: Callable[[str], str]) -> Insight:
    """The insight; where the summary of its question copies from it, that is left out."""
    copied = find_copy(insight.profile.summary)
    return insight.replace(profile=insight.profile.replace(summary="")) if copied else insight


def apply_operation(
    library: ExperienceLibrary,
    new: Insight,
    matches: ExperienceLibrary,
    wanted: LibraryOperation | None,
    config: LibraryConfig,
    find_copy: Callable[[str], str] = lambda text: "",
) -> tuple[ExperienceLibrary, InsightChange]:
    """Apply the legal part of an operation; without a valid operation the new insight is added.

    PRUNE removes only matching entries that were used often enough and did worse; the new insight replaces them.
    Where a conflicting entry stays, the new insight is left out, as the proven one counts more.
    """
    there = {entry.id: entry for entry in library}  # merges in the meantime change counts
    named = {id.strip("[] ") for id in wanted.target_entry_ids} if wanted else set()
    targets = [there[entry.id] for entry in matches if entry.id in named and entry.id in there]
    ids = tuple(entry.id for entry in targets)
    why = " ".join(wanted.rationale.split())[:300] if wanted else "no valid operation came; added"
    operation = wanted.operation if wanted else "ADD"
    if any(entry.id == new.id for entry in library):
        change = InsightChange(operation="KEEP", insight=new.text, why="it is there already")
        return add_insight(library, new, config.size), change
    if operation == "MERGE" and targets:
        text = " ".join(((wanted.merged_insight if wanted else "") or "").split())[:TEXT_LENGTH]
        text = targets[0].text if find_copy(text) else text or targets[0].text
        whole = merge_insights(library, new, ids, text, config.size)
        return whole, InsightChange(operation="MERGE", insight=new.text, targets=ids, why=why)
    if operation == "PRUNE" and targets:
        return _prune(library, new, targets, why, config)
    if operation == "KEEP":
        return library, InsightChange(operation="KEEP", insight=new.text, why=why)
    return _add(library, new, why, config)


def _add(
    library: ExperienceLibrary, new: Insight, why: str, config: LibraryConfig
) -> tuple[ExperienceLibrary, InsightChange]:
    more = add_insight(library, new, config.size)
    if any(entry.id == new.id for entry in more):
        return more, InsightChange(operation="ADD", insight=new.text, why=why)
    why = f"{why}; {config.size} better ones fill the library"
    return more, InsightChange(operation="KEEP", insight=new.text, why=why)


def _prune(
    library: ExperienceLibrary, new: Insight, targets: Sequence[Insight], why: str, config: LibraryConfig
) -> tuple[ExperienceLibrary, InsightChange]:
    gone = {entry.id for entry in find_prunable(library, targets, config)}
    left = remove_insights(library, gone)
    if stays := [entry.id for entry in targets if entry.id not in gone]:
        reason = f"{why}; {', '.join(stays)} is not proven worse, so it stays and the new one is left out"
        operation: Operation = "PRUNE" if gone else "KEEP"
        return left, InsightChange(operation=operation, insight=new.text, targets=tuple(sorted(gone)), why=reason)
    ids = tuple(entry.id for entry in targets)
    return add_insight(left, new, config.size), InsightChange(operation="PRUNE", insight=new.text, targets=ids, why=why)


async def _ask_operations(
    new: Sequence[Insight], matches: dict[str, ExperienceLibrary], orchestrator: PromptedModel, scope: Scope
) -> tuple[dict[str, LibraryOperation], Usage]:
    entries = {entry.id: entry for found in matches.values() for entry in found}
    reply, usage = await orchestrator.ask_or(
        LibraryOperations(operations=[]),
        LibraryOperations,
        "consolidate",
        scope=scope.at(node="consolidate"),
        catch=ModelError,
        library="\n".join(
            [
                f"[{id}] ({entry.profile.type}, utility {entry.utility:.2f} over {entry.uses} uses) {entry.text}"
                for id, entry in entries.items()
            ]
        ),
        new="\n".join([f"- ({insight.profile.type}) {insight.text}" for insight in new]),
    )
    return _match_operations([insight.text for insight in new], reply.operations), usage


def _match_operations(texts: Sequence[str], operations: Sequence[LibraryOperation]) -> dict[str, LibraryOperation]:
    """Match operations with new insights by their text, and reworded ones by their place if there is one for each."""
    bare, named = [_bare(text) for text in texts], [_bare(operation.new_insight) for operation in operations]
    found = dict(zip(named, operations, strict=True))
    if len(bare) == len(named):
        placed = zip(bare, named, operations, strict=True)
        found = {own: operation for own, name, operation in placed if name not in bare} | found
    return {text: found[own] for text, own in zip(texts, bare, strict=True) if own in found}


def _bare(text: str) -> str:
    """The words of an insight in small letters, without the type before it; a model may repeat it with other signs."""
    return " ".join(re.findall(r"\w+", re.sub(r"^\W*\(\w+\)", "", text).casefold()))
