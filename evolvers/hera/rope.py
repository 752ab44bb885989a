"""Role-aware prompt evolution: variants of failing agents' prompts, and lessons of their replays (Sec. 3.4, Alg. 5)."""

from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ModelError
from selfwire.core.excerpt import excerpt
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.blame import Blame, Failure, render_failures, render_feedback
from selfwire.evolvers.hera.config import Axis, PromptConfig
from selfwire.evolvers.hera.rules import Prompt, PromptChange, apply_prompt_diff, to_plain_line
from selfwire.evolvers.hera.schemas import Contrast, PromptDiff, PromptVariant
from selfwire.evolvers.outcomes import count_agent_tokens, get_score
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trace_text import format_step, render_lines

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


class Variant(FrozenModel):
    """One prompt variant: the instructions that it adds along an axis, and the whole prompt."""

    axis: Axis
    instructions: tuple[str, ...]
    prompt: str


class Lesson(FrozenModel):
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
    """

    blame: Blame
    failures: tuple[Failure, ...]
    variants: tuple[Variant, ...] = ()
    scores: tuple[float | None, ...] = ()
    control: float | None = None
    lesson: Lesson = Lesson()


async def generate_variant(
    agent: Agent, axis: Axis, failures: Sequence[Failure], orchestrator: PromptedModel, *, scope: Scope
) -> tuple[Variant | None, Usage]:
    """GenerateVariant: the prompt with a few more instructions; None where no valid reply comes."""
    reply, usage = await orchestrator.ask_or(
        PromptVariant(instructions=[]),
        PromptVariant,
        "variant",
        scope=scope.at(node=f"variant {agent.id} {axis}"),
        catch=ModelError,
        agent=agent.id,
        role=agent.role,
        prompt=agent.prompt,
        tools=render_lines(agent.tools),
        axis=AXES[axis],
        failures=render_failures(failures),
    )
    new = tuple(text for text in map(to_plain_line, reply.instructions[:ADDED]) if text)
    prompt = Prompt.of(agent.prompt)
    text = prompt.replace(rules=(*prompt.rules, *new)).text
    return Variant(axis=axis, instructions=new, prompt=text) if new else None, usage


async def extract_lesson(
    agent: Agent,
    original: Trajectory,
    control: Trajectory,
    replays: Sequence[tuple[Variant, Trajectory]],
    failures: Sequence[Failure],
    orchestrator: PromptedModel,
    *,
    scope: Scope,
) -> tuple[Lesson, Usage]:
    """ExtractOperationalRules and ExtractBehavioralPrinciples; nothing where no replay was graded.

    Args:
        original: the failed trajectory.
        control: its replay with the original prompt (D12).
        replays: of the variants; those with an infrastructure error teach nothing.
        failures: the agent's buffer, the original last.
    """
    graded = [(varied, done) for varied, done in replays if get_score(done) is not None]
    if not graded:
        return Lesson(), Usage()
    results = [f"original prompt: {_result(original, agent.id)}"]
    if control.feedback:
        results.append(f"original prompt, repeated: {_result(control, agent.id)}")
    for variant, done in graded:
        added = render_lines([f"adds: {one}" for one in variant.instructions])
        results.append(f"variant {variant.axis}\n{added}\n{_result(done, agent.id)}")
    reply, usage = await orchestrator.ask_or(
        Contrast(),
        Contrast,
        "contrast",
        scope=scope.at(node=f"contrast {agent.id}"),
        catch=ModelError,
        agent=agent.id,
        role=agent.role,
        prompt=agent.prompt,
        tools=render_lines(agent.tools),
        case="\n\n".join(one.case for one in failures[-1:]) or "(none)",
        variants="\n\n".join(results),
        failures=render_failures(failures[:-1], above=failures[-1].asked if failures else ""),
    )
    rules, principles = reply.operational_rules[:PROPOSED], reply.behavioral_principles[:PROPOSED]
    derived = [*(one.derived_from for one in rules), *(one.derived_from for one in principles)]
    return Lesson(
        rules=tuple(to_plain_line(one.rule) for one in rules),
        principles=tuple(to_plain_line(one.principle) for one in principles),
        derived_from=tuple(map(to_plain_line, derived)),
    ), usage


async def integrate_lesson(
    agent: Agent, lesson: Lesson, orchestrator: PromptedModel, config: PromptConfig, *, scope: Scope
) -> tuple[Rewiring | None, PromptChange, Usage]:
    """Prompt consolidation: the model integrates the lesson, Pi_C enforces the limits; None where nothing changes.

    Without a valid reply the proposals are added as they are.
    """
    if not (lesson.rules or lesson.principles):
        return None, PromptChange(), Usage()
    wanted, usage = await orchestrator.ask_or(
        PromptDiff(added_rules=list(lesson.rules), added_principles=list(lesson.principles)),
        PromptDiff,
        "integrate",
        scope=scope.at(node=f"integrate {agent.id}"),
        catch=ModelError,
        prompt=agent.prompt,
        proposed=render_lines(
            [*(f"rule: {one}" for one in lesson.rules), *(f"principle: {one}" for one in lesson.principles)]
        ),
        limits=f"at most {config.rules} rules, at most {config.length} characters",
    )
    after, diff = apply_prompt_diff(Prompt.of(agent.prompt), wanted, rules=config.rules, length=config.length)
    if not diff:
        return None, diff, usage
    why = f"{diff} (from {'; '.join(dict.fromkeys(lesson.derived_from)) or 'replays with prompt variants'})"
    return Rewiring(RewritePrompt(agent.id, after.text), why=why, operation=OPERATION, by=agent.id), diff, usage


def _result(trajectory: Trajectory, agent: str) -> str:
    answer = (trajectory.answer or "").strip()
    steps = [step for step in trajectory.steps if step.agent == agent]
    own = "\n".join(f"[{step.node}] {format_step(step, STEP_LENGTH, about=answer)}" for step in steps)
    final = "" if answer in own else f"\nfinal answer: {excerpt(answer, STEP_LENGTH)}"
    return f"{render_feedback(trajectory)} ({count_agent_tokens(trajectory)} tokens)\n{own}{final}"
