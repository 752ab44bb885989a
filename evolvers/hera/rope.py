"""Role-aware prompt evolution: failed agents, variants of prompts, lessons of replays (Sec. 3.4, Alg. 1 and 5)."""

from collections.abc import Mapping, Sequence

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.text import mark_earlier
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.hera.config import Axis, PromptConfig
from selfwire.evolvers.hera.failures import Blame, Failure, render_answer, render_failures, resolve_blame
from selfwire.evolvers.hera.library import Insight, UsageCounts, count_successes
from selfwire.evolvers.hera.reflection import get_topology
from selfwire.evolvers.hera.rules import Prompt, PromptChange, apply_prompt_diff, to_plain_line
from selfwire.evolvers.hera.schemas import Contrast, FailedAgent, PromptDiff, PromptVariant
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import (
    Described,
    count_agent_tokens,
    describe_held_tools,
    format_step,
    format_trace,
    get_score,
    render_agents,
    render_feedback,
    render_topology,
)

ADDED = 3  # most instructions of a variant
PROPOSED = 4  # most rules, and most principles, of one contrast
STEP_LENGTH = 2_000
OPERATION = "ROPE"
"""The operation that rewrites a prompt."""

AXES: dict[Axis, str] = {
    "efficiency": "efficiency: do the same with fewer words, calls and detours",
    "thoroughness": "thoroughness: leave out no step that the work needs, and check that it is complete",
    "risk_sensitivity": "risk sensitivity: commit to nothing that is not supported, and say how sure each point is",
    "error_correction": "error correction: look for the mistakes of the failures and undo them",
    "heuristic_injection": "heuristics: follow a rule of thumb that experts use for such work",
}
"""The meaning of each axis, in the model's prompt."""


class VariedPrompt(FrozenModel):
    """A prompt variant: the instructions that it adds along an axis, and the whole prompt."""

    axis: Axis
    instructions: tuple[str, ...]
    prompt: str


class PromptLesson(FrozenModel):
    """Delta rho of one agent: rules are short-term corrections, principles long-term strategies.

    Args:
        derived_from: the basis of each, in the model's words, in the same order.
    """

    rules: tuple[str, ...] = ()
    principles: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()


class Rope(FrozenModel):
    """The results of one agent's prompt variants.

    Args:
        failures: the agent's buffer.
        scores: of the variants' replays, in the same order; None where a replay ended as an error.
        control: score of the replay with the original prompt; None as well.
        insights: ids of those that the variants were worded by.
        left_out: parts of the lesson that the prompt could not take, and why.
    """

    blame: Blame
    failures: tuple[Failure, ...]
    variants: tuple[VariedPrompt, ...] = ()
    scores: tuple[float | None, ...] = ()
    control: float | None = None
    lesson: PromptLesson = PromptLesson()
    insights: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def count_recalls(ropes: Sequence[Rope], success_at: float) -> UsageCounts:
    """(uses, successes) of every insight that variants were worded by, over their graded replays, by its id."""
    scored = ((rope, score) for rope in ropes for score in rope.scores if score is not None)
    return count_successes(((insight, score) for rope, score in scored for insight in rope.insights), success_at)


async def blame_agent(
    index: int,
    trajectory: Trajectory,
    team: Team,
    orchestrator: PromptedModel,
    *,
    toolbox: Mapping[str, Described],
    scope: Scope,
) -> tuple[Blame | None, Usage]:
    """IdentifyFailedAgents: blame an agent for a failed trajectory; None where the reply names no agent that ran."""
    ran = list(dict.fromkeys(step.agent for step in trajectory.steps))
    agents = [team.agents_by_id[name] for name in ran if name in team.agents_by_id]
    topology = get_topology(trajectory)
    reply, usage = await orchestrator.ask_or(
        None,
        FailedAgent,
        "blame",
        scope=scope.at(task=trajectory.question.id, node="blame", sample=trajectory.sample),
        catch=ModelError,
        task=trajectory.question.input,
        plan=render_topology(topology) if topology else ", ".join(ran),
        agents=render_agents(agents),
        tools=describe_held_tools(agents, team, toolbox),
        trace=format_trace(trajectory),
        feedback=render_feedback(trajectory),
    )
    return resolve_blame(index, trajectory, reply.agent, reply.cause) if reply else None, usage


async def generate_variant(
    agent: Agent,
    axis: Axis,
    failures: Sequence[Failure],
    orchestrator: PromptedModel,
    insights: Sequence[Insight] = (),
    *,
    tools: str = "",
    scope: Scope,
) -> tuple[VariedPrompt | None, Usage]:
    """GenerateVariant: the prompt with a few more instructions; None where no valid reply comes.

    Args:
        insights: of questions like those of the failures, where no plan is made by them.
        tools: those that the agent holds, with their descriptions.
    """
    reply, usage = await orchestrator.ask_or(
        PromptVariant(instructions=[]),
        PromptVariant,
        "variant",
        scope=scope.at(node=f"variant {agent.id} {axis}"),
        catch=ModelError,
        agent=agent.id,
        role=_get_role(agent),
        prompt=agent.prompt,
        tools=tools,
        axis=AXES[axis],
        failures=render_failures(failures),
        insights="\n".join(insight.text for insight in insights),
    )
    new = tuple(text for text in map(to_plain_line, reply.instructions[:ADDED]) if text)
    prompt = Prompt.of(agent.prompt)
    text = prompt.replace(rules=(*prompt.rules, *new)).text
    return VariedPrompt(axis=axis, instructions=new, prompt=text) if new else None, usage


async def extract_lesson(
    agent: Agent,
    original: Trajectory,
    replays: Sequence[tuple[VariedPrompt | None, Trajectory]],
    failures: Sequence[Failure],
    orchestrator: PromptedModel,
    *,
    tools: str = "",
    scope: Scope,
) -> tuple[PromptLesson, Usage]:
    """ExtractOperationalRules and ExtractBehavioralPrinciples; nothing without a better and a worse replay.

    App. B contrasts successful variants with failed ones; replays of equal scores show no difference to learn from.

    Args:
        original: the failed trajectory.
        replays: with a variant of the prompt, or None for the original prompt (D12); those with an infrastructure
            error teach nothing.
        failures: the agent's buffer, the original last.
        tools: those that the agent holds, with their descriptions.
    """
    graded = [(varied, done) for varied, done in replays if get_score(done) is not None]
    unvaried = [] if any(varied is None for varied, _ in graded) else [original]
    if len({get_score(done) for done in (*unvaried, *(done for _, done in graded))}) < 2:
        return PromptLesson(), Usage()
    results = [
        (
            "(the same as in the run of the original prompt)",
            f"original prompt: {_result(original, agent.id)}",
            _works(original, agent.id),
        )
    ]
    for variant, done in graded:
        added = "\n".join([f"adds: {text}" for text in variant.instructions]) if variant else ""
        name = f"variant {variant.axis}\n{added}\n" if variant else "original prompt, repeated: "
        called = f"the run of variant {variant.axis}" if variant else "the repeated run"
        results.append((f"(the same as in {called})", f"{name}{_result(done, agent.id)}", _works(done, agent.id)))
    reply, usage = await orchestrator.ask_or(
        Contrast(),
        Contrast,
        "contrast",
        scope=scope.at(node=f"contrast {agent.id}"),
        catch=ModelError,
        agent=agent.id,
        role=_get_role(agent),
        prompt=agent.prompt,
        tools=tools,
        case="\n\n".join(failure.case for failure in failures[-1:]),
        variants="\n\n".join(mark_earlier(results)),
        failures=render_failures(failures[:-1]),
    )
    rules, principles = reply.operational_rules[:PROPOSED], reply.behavioral_principles[:PROPOSED]
    derived = [*(lesson.derived_from for lesson in rules), *(lesson.derived_from for lesson in principles)]
    return PromptLesson(
        rules=tuple(to_plain_line(rule.rule) for rule in rules),
        principles=tuple(to_plain_line(principle.principle) for principle in principles),
        derived_from=tuple(map(to_plain_line, derived)),
    ), usage


async def integrate_lesson(
    agent: Agent, lesson: PromptLesson, orchestrator: PromptedModel, config: PromptConfig, *, scope: Scope
) -> tuple[Rewiring | None, PromptChange, Usage]:
    """Prompt consolidation: the model integrates the lesson, Pi_C enforces the limits; None where nothing changes.

    Without a valid reply, and to a prompt that has no lines yet, the proposals are added unchanged.
    """
    if not (lesson.rules or lesson.principles):
        return None, PromptChange(), Usage()
    before, usage = Prompt.of(agent.prompt), Usage()
    wanted = PromptDiff(added_rules=list(lesson.rules), added_principles=list(lesson.principles))
    if before.rules or before.principles:
        wanted, usage = await orchestrator.ask_or(
            wanted,
            PromptDiff,
            "integrate",
            scope=scope.at(node=f"integrate {agent.id}"),
            catch=ModelError,
            prompt=agent.prompt,
            proposed="\n".join(
                [*(f"rule: {text}" for text in lesson.rules), *(f"principle: {text}" for text in lesson.principles)]
            ),
            limits=f"at most {config.rules} rules, at most {config.length} characters",
        )
    after, diff = apply_prompt_diff(before, wanted, rules=config.rules, length=config.length)
    if not diff:
        return None, diff, usage
    why = f"{diff} (from {'; '.join(dict.fromkeys(lesson.derived_from)) or 'replays with prompt variants'})"
    return Rewiring(RewritePrompt(agent.id, after.text), why=why, operation=OPERATION, by=agent.id), diff, usage


def _get_role(agent: Agent) -> str:
    """An agent's role; "" where it is the prompt or parts of it, as of a program's text."""
    role, prompt = " ".join(agent.role.split()), " ".join(agent.prompt.split())
    return "" if all(part in prompt for part in role.split(" ... ")) else agent.role


def _works(trajectory: Trajectory, agent: str) -> list[str]:
    return [*(step.output for step in trajectory.steps if step.agent == agent), trajectory.answer or ""]


def _result(trajectory: Trajectory, agent: str) -> str:
    steps, answer = [step for step in trajectory.steps if step.agent == agent], trajectory.answer or ""
    own = "\n".join(f"[{step.node}] {format_step(step, STEP_LENGTH, about=answer)}" for step in steps)
    score, _, text = render_feedback(trajectory).partition("\n")  # equal words on a line of their own stand there once
    said = f"\nfeedback: {text}" if text else ""
    return f"{score}, {count_agent_tokens(trajectory)} tokens{said}\n{own}\n{render_answer(answer, steps, STEP_LENGTH)}"
