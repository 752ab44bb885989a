"""A small run of each method with the offline model, in which it asks everything that it can ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from selfwire.core.edits import AddTool, Grant, Rewiring
from selfwire.core.own_tool import OwnTool, ToolExample
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evals.benchmarks.archive import archive
from selfwire.evals.graders import load_grader
from selfwire.evals.retrieval import FORM
from selfwire.evolvers.hera.library import ExperienceLibrary, with_library
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method, make_method
from selfwire.models.embeddings import HashingEmbedder
from tests.prompts.recording import Ask, Asks, RecordingModel

ARCHIVE = archive(size=60)
SEARCHED = ARCHIVE.splits(0, train=2, gate=0, test=0).train[0]
"""A question whose passages are found with a search tool."""
QUOTED = Task(
    id="bridges",
    input=(
        "Which of the two bridges was opened first, and by how many years?\n\n"
        "[1] Orrin Bridge\nThe Orrin Bridge is a footbridge of oak in the town of Veld. It was opened in 1874 by the "
        "mayor, Ada Brandt, and closed for repairs from 1921 to 1923.\n\n"
        "[2] Kestrel Viaduct\nThe Kestrel Viaduct carries a railway over the river Ilm. Work began in 1869, and the "
        "first train crossed it on the day of its opening, 4 May 1881.\n\n"
        f"{FORM}"
    ),
    reference="the Orrin Bridge, by 7 years",
)
"""A question that quotes its passages."""
DOMAINS = ("general", "code", "math")
LAYERS = (("io", "multi_generate", "web_search", "web_browser"), ("self_refine", "ensemble"), ("early_exit",))


@dataclass(frozen=True)
class Run:
    """One method at work.

    Attributes:
        iterations: how often it learns from both questions.
        replies: by the title of a schema, where the offline model would seldom say what leads to a further step.
        tool: of the team's own, which its agents with tools hold.
        insights: in the team's library from the beginning.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    iterations: int = 0
    replies: Mapping[str, Any] = field(default_factory=dict)
    tool: OwnTool | None = None
    insights: ExperienceLibrary = ()
    asks: Asks = field(default_factory=Asks)

    @cached_property
    def method(self) -> Method[Any]:
        """The method."""
        return make_method(self.name, self.fields)

    @cached_property
    def ctx(self) -> Ctx[Any]:
        """The method's context, whose model records what it is asked."""
        model = RecordingModel(OfflineChat(error_rate=0.3), self.asks, self.replies)
        return self.method.make_ctx(model, ARCHIVE.toolbox, HashingEmbedder())

    async def execute(self) -> "Outcome":
        """Learn from both questions, and answer them."""
        team = self.method.seed(ARCHIVE.tools, toolbox=tuple(ARCHIVE.toolbox))
        if self.tool:
            grants = [Grant(agent.id, self.tool.name) for agent in team.agents if agent.tools]
            team = team.apply(Rewiring(AddTool(self.tool), *grants, why="seed"))
        team = with_library(team, self.insights)
        tasks, seed = {task.id: task for task in (SEARCHED, QUOTED)}, team
        for number in range(self.iterations):
            team = await self._learn(team, tasks, number)
        answered = [
            await self.method.answer(team, task.question, self.ctx.where(phase="run", task=task.id))
            for task in tasks.values()
        ]
        return Outcome(seed, team, answered, self.asks.made)

    async def _learn(self, team: Team, tasks: Mapping[str, Task], number: int) -> Team:
        async def grade(done: Trajectory, at: Scope) -> Trajectory:
            if done.answer is None:
                return done
            task = tasks[done.question.id]
            found = await self._grader(task).grade(task, done.answer, scope=at)
            if at.phase.endswith("thoroughness"):  # so that HERA's replays differ, which they seldom do here
                found = found.replace(score=max(found.score, 0.3))
            return done.with_feedback(found)

        ctx = self.ctx.where(phase="rollout", iteration=number)
        found: list[Trajectory] = []
        for task in tasks.values():
            explored = await self.method.explore(team, task.question, ctx.where(task=task.id))
            found += [await grade(done, ctx.scope) for done in explored]
        learning = replace(ctx.where(phase="evolve"), grade_run=grade)
        return (await self.method.propose(team, found, learning)).workflow

    def _grader(self, task: Task) -> Environment:
        return ARCHIVE.environment if task is SEARCHED else load_grader("f1")


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        seed, team: before and after it has learned.
        answered: the two questions.
    """

    seed: Team
    team: Team
    answered: Sequence[Trajectory]
    asks: Sequence[Ask]

    def shown(self, step: str) -> str:
        """All that the asks of a step show."""
        return "\n".join(message.content for ask in self.asks if ask.step == step for message in ask.messages)


CRITICAL: Mapping[str, Mapping[str, Any]] = {
    "GlobalGradient": {
        "feedback": "Nobody compared the years after they were looked up.",
        "sentiment": "critical",
    },
    "AgentGradient": {
        "system_prompt_feedback": "Name the passage that each year comes from.",
        "tool_feedback": "",
        "overall_feedback": "An agent that compares the years is missing.",
        "concerns": "both",
        "sentiment": "critical",
    },
    "TaskProfile": {
        "main_concept": "comparison",
        "broader": [],
        "concepts": ["dates"],
        "required_tools": [],
        "parallelizability": 0.8,
    },
    "TopologyDecision": {"operation": "ADD_PARALLEL", "description": "You compare years and name the earlier one."},
}
YEARS = OwnTool(
    name="years_between",
    description="Takes two years and returns how many years lie between them, whichever comes first.",
    source="def tool_function(first: int, second: int) -> int:\n    return second - first\n",
    examples=(ToolExample(arguments={"first": 1874, "second": 1881}, result="7"),),
)
YEARS_FEEDBACK = {
    **CRITICAL["AgentGradient"],
    "tool_feedback": "years_between gives a negative number where the first year is the later one.",
}
REWRITE = {
    "operation": "REWRITE_TOOL",
    "tool": "years_between",
    "reason": "It gives a negative number where the first year is the later one.",
}
CREATE = {
    "operation": "CREATE_TOOL",
    "tool": "first_year",
    "description": "Takes a text and returns the first year of four digits in it.",
    "reason": "Years are misread in long sentences.",
}
CODE = {
    "source": "def tool_function(first: int, second: int) -> int:\n    return first - second\n",
    "calls": ['{"first": 1874, "second": 1881}'],
}


def _with_tools(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**CRITICAL, "AgentGradient": YEARS_FEEDBACK, "ToolDecision": decision, "ToolSource": CODE}


CONTRASTED = {"operational_rules": [{"rule": "Quote the sentence that a year comes from."}]}
FAILED = {"feedback": "The years of the openings are not compared yet.", "reward": 0}
CRITERIA = ("names one bridge", "gives a number of years", "quotes a passage", "ends with a line 'Answer:'")
REPLACED = {
    "Checklist": {"items": [{"criterion": f"The answer {one}.", "operator": "correctness"} for one in CRITERIA]},
    "Verdict": {"results": [False] * len(CRITERIA), "reason": "The years are not compared."},
    "SlowUpdate": {"birth_death_pairs": [{"v_new": {"role": "comparer", "goal": "Compare the years."}}]},
}
RUNS: Mapping[str, Sequence[Run]] = {
    "hiva": (
        Run("hiva", iterations=2, replies=CRITICAL),
        Run("hiva", {"environment": False}, iterations=1),
        Run("hiva", iterations=1, tool=YEARS, replies=_with_tools(REWRITE)),
        Run("hiva", iterations=1, replies=_with_tools(CREATE)),
    ),
    "hera": (Run("hera", {"group": 4}, iterations=4, replies={"Contrast": CONTRASTED}),),
    "tacomas": (Run("tacomas", {"rounds": 4}, replies=REPLACED),),
    "dytopo": tuple(Run("dytopo", {"rounds": 3, "domain": domain}) for domain in DOMAINS),
    "evomas": (
        Run("evomas", {"adapter": "fixed", "plan": LAYERS, "stages": 3, "verify": True}),
        Run("evomas", {"adapter": "fixed", "plan": LAYERS, "stages": 2}, replies={"Assessed": FAILED}),
    ),
}
"""What is run of each method; `replies` are what the offline model would say too seldom to reach every step."""


async def ask_everything(method: str) -> Sequence[Ask]:
    """What the runs of a method ask, in order."""
    return [ask for run in RUNS[method] for ask in (await replace(run, asks=Asks()).execute()).asks]
