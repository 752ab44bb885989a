"""The Evaluator judges the active subtask (App. B.2, C.2); the answer comes with its last judgement or by a call."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts, ReplySchema
from selfwire.core.errors import ModelError, TaskBudgetError, get_error_cost
from selfwire.core.protocols import AgentRunner
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Message, Step
from selfwire.core.usage import Usage
from selfwire.evolvers.evomas.stages import Finding
from selfwire.evolvers.evomas.state import (
    ARTIFACTS_LENGTH,
    FEEDBACK_LENGTH,
    WHOLE_TASK,
    Assessment,
    TaskState,
    format_state,
)
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import format_tool_use

RESULTS_LENGTH = 3_000
"""Characters that the results of a workflow's tools share in the evaluator's prompt."""
MOST_USES = 12
"""Most tool uses in the evaluator's prompt, as each adds a name and arguments to its result."""
NOT_JUDGED = "The outcome could not be judged."


class Assessed(ReplySchema):
    """The judgement of a subtask."""

    MAX_TOKENS: ClassVar[int | None] = 600

    feedback: str = Field(description="What is done, what is missing and what is wrong.")
    reward: float = Field(ge=0, le=1, description="1 if the subtask is done; 0 if it is not, or only in part.")
    refine: bool = Field(default=True, description="With reward 0: whether another try may succeed.")
    confidence: float = Field(default=0.5, ge=0, le=1, description="How sure you are, from 0 to 1.")


class LastAssessed(Assessed, title="Assessed"):
    """The judgement with which the work may end, and the final answer."""

    MAX_TOKENS: ClassVar[int | None] = None

    answer: str = Field(default="", description="The answer to the whole task.")


class LastAnswer(ReplySchema):
    """The final answer."""

    answer: str = Field(description="The answer alone, in exactly the form that the task asks for.")


class AssessmentResult(NamedTuple):
    """An assessment, its cost, whether it is only the fallback, and the answer to the task if the work may end."""

    assessment: Assessment
    usage: Usage
    fell_back: bool = False
    answer: str = ""


async def assess_outcome(
    state: TaskState,
    outcome: str,
    meta_model: PromptedModel,
    *,
    steps: Sequence[Step] = (),
    checks: str = "",
    closing: bool = False,
    scope: Scope,
) -> AssessmentResult:
    """Give e_t: verdict, confidence and feedback on the active subtask of the state before the update.

    Without a valid reply the subtask is sent back (a reward of 0 that may be refined): nothing passes unjudged.

    Args:
        steps: of the workflow that came to the outcome.
        closing: whether the work may end with this stage, so that the reply also holds the answer to the task (D15).
    """
    goal = state.current.goal if state.current else WHOLE_TASK
    reply, usage = await meta_model.ask_or(
        None,
        LastAssessed if closing else Assessed,
        "evaluator",
        scope=scope.at(node="evaluator"),
        by="judge",
        task=state.objective,
        state=format_state(state, here="the subtask to judge"),
        subtask=goal,
        closing=meta_model.prompts.text("closing", form=get_form(meta_model)) if closing else "",
        outcome=outcome,
        tool_results=format_tool_results(steps, f"{goal}\n{outcome}"),
        checks=checks,
    )
    if reply is None:
        return AssessmentResult(Assessment(verdict="refine", feedback=NOT_JUDGED), usage, fell_back=True)
    answer = reply.answer.strip() if isinstance(reply, LastAssessed) else ""
    return AssessmentResult(to_assessment(reply), usage, answer=answer)


def format_tool_results(steps: Sequence[Step], about: str) -> str:
    """The last tool uses of a workflow, each once, their results cut to what concerns an outcome; "" without any."""
    uses = [*{(use.name, str(use.arguments), use.result): use for step in steps for use in step.tools}.values()]
    shown, earlier = uses[-MOST_USES:], len(uses[:-MOST_USES])
    share = RESULTS_LENGTH // max(len(shown), 1)
    left_out = [f"(earlier uses that are left out: {earlier})"] if earlier else []
    return "\n".join([*left_out, *(format_tool_use(use, share, about) for use in shown)])


async def verify_outcome(
    agents: Iterable[Agent], question: Question, outcome: str, act: AgentRunner, prompts: Prompts, *, scope: Scope
) -> tuple[str, Usage]:
    """Look an outcome's claims up with all tools that the agents hold (D16); "" where that fails or there is none."""
    tools = tuple(dict.fromkeys(tool for agent in agents for tool in agent.tools))
    if not tools:
        return "", Usage()
    verifier = Agent(id="verifier", prompt=prompts.text("verify").strip(), tools=tools)
    inbox = (Message(source="workflow", target=verifier.id, text=outcome),)
    try:
        step = await act(verifier, question, inbox, scope=scope.at(node=verifier.id))
    except ModelError as error:
        return "", get_error_cost(error)
    return step.output, step.usage


def to_assessment(reply: Assessed) -> Assessment:
    """The paper's verdict from a binary reward; a partial success, below 1, is no success."""
    feedback = excerpt(reply.feedback.strip(), FEEDBACK_LENGTH)
    if reply.reward >= 1:
        return Assessment(verdict="success", confidence=reply.confidence, feedback=feedback)
    return Assessment(verdict="refine" if reply.refine else "fail", confidence=reply.confidence, feedback=feedback)


def make_no_outcome_assessment(why: str) -> Assessment:
    """The assessment of a stage without an outcome: it may be tried again."""
    return Assessment(verdict="refine", feedback=excerpt(f"Nobody of the workflow answered: {why}", FEEDBACK_LENGTH))


async def compose_answer(
    task: str, findings: Sequence[Finding], fallback: str, meta_model: PromptedModel, *, scope: Scope
) -> tuple[str, Usage]:
    """The closing call: the answer in the form that the task asks for, from the run's findings, oldest first (D15).

    It ends a run whose last judgement holds none. Without a valid reply, or where the task's calls are used up, the
    answer is the fallback.
    """
    share = ARTIFACTS_LENGTH // len(findings)
    texts = [_format_finding(number, finding, share) for number, finding in enumerate(findings, 1)]
    try:
        reply, usage = await meta_model.ask_or(
            None,
            LastAnswer,
            "synthesis",
            scope=scope.at(node="synthesis"),
            task=task,
            form=get_form(meta_model),
            findings="\n\n".join(texts),
        )
    except TaskBudgetError:
        return fallback, Usage()
    return (reply.answer.strip() if reply else "") or fallback, usage


def get_form(meta_model: PromptedModel) -> str:
    """The words on the form of an answer, the same wherever one is written."""
    return meta_model.prompts.text("form").strip()


def _format_finding(number: int, finding: Finding, length: int) -> str:
    goal = "" if finding.goal == WHOLE_TASK else f" {finding.goal}"
    text = excerpt(finding.text, length, finding.goal)
    if finding.passed:
        return f"[{number}, passed]{goal}\n{text}"
    return f"[{number}, not passed]{goal}\n{text}" + (f"\nReview: {finding.feedback}" if finding.feedback else "")
