"""Good replies: one per step, with the effect that it has, which `tests/test_prompts.py` holds it to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.prompts.runs import CREATE, CRITICAL, YEARS_FEEDBACK, Outcome, Run


@dataclass(frozen=True)
class GoodReply:
    """A reply to a step's prompt.

    Attributes:
        step: the title of a schema, or the beginning of an agent's system message.
        effect: in words, for the page.
        holds: whether the outcome of a run with this reply shows the effect.
    """

    step: str
    reply: Mapping[str, Any] | str
    effect: str
    holds: Callable[[Outcome], bool]

    @property
    def is_text(self) -> bool:
        """Whether it is an agent's."""
        return isinstance(self.reply, str)

    @property
    def title(self) -> str:
        """The step by its name on the page."""
        return "agent" if self.is_text else self.step


@dataclass(frozen=True)
class Feed:
    """A run that is fed good replies."""

    run: Run
    good: Sequence[GoodReply]


DIAGNOSIS = "Both dates were quoted, but nobody subtracted the years: somebody must compare them before the answer."
QUOTE = "Give the year of each event with the passage that states it."
MISSING = "A step that compares the years is missing before the answer."
SOURCE = "You are a member of a team that works on a task together. Work"
REWRITTEN = f"You are a member of a team. Work on the task as far as you can. {QUOTE} Say what is still open."
COMPARER = "You compare dates. You get events with their dates; say which was first, and by how many years."
FOUND = "Orrin Bridge: opened in 1874 [1]. Kestrel Viaduct: opened on 4 May 1881 [2]. Open: nothing."
ANSWER = "Answer: the Orrin Bridge, by 7 years"
HANDED = "The Orrin Bridge was opened in 1874, the Kestrel Viaduct in 1881. Subtract the years."
DOUBT = "The number of years is not derived: nobody subtracted the two dates."
FIRST_YEAR = 'import re\n\ndef tool_function(text: str) -> str:\n    return re.search(r"\\d{4}", text).group()\n'

HIVA = (
    Feed(
        Run("hiva", iterations=1),
        (
            GoodReply(
                "GlobalGradient", {"feedback": DIAGNOSIS, "own_feedback": "", "sentiment": "neutral"},
                "The critics of the agents before the last one read `feedback`; the prompt of the last one stays, as "
                "the sentiment is not critical.",
                lambda out: DIAGNOSIS in out.shown("AgentGradient") and _prompt(out, "aggregator", same=True),
            ),
            GoodReply(
                "AgentGradient",
                {
                    "system_prompt_feedback": QUOTE, "tool_feedback": "", "overall_feedback": MISSING,
                    "concerns": "both", "sentiment": "critical",
                },
                "`system_prompt_feedback` is what the agent's prompt is rewritten by, `overall_feedback` what the team "
                "around it is changed by.",
                lambda out: QUOTE in out.shown("PromptRewrite") and MISSING in out.shown("TopologyDecision"),
            ),
            GoodReply(
                "PromptRewrite", {"prompt": REWRITTEN}, "It is the agent's prompt from the next run on.",
                lambda out: out.team.agents_by_id["source"].prompt == REWRITTEN,
            ),
            GoodReply(
                "TaskProfile",
                {
                    "main_concept": "comparison question", "broader": ["multi-hop question"], "concepts": ["dates"],
                    "required_tools": [], "parallelizability": 0.9,
                },
                "From a parallelizability of 0.5 on, the decision on the team offers ADD_PARALLEL.",
                lambda out: "<operations>\nADD_PARALLEL" in out.shown("TopologyDecision"),
            ),
            GoodReply(
                "TopologyDecision",
                {
                    "operation": "ADD_SERIAL", "name": "date comparer", "description": COMPARER, "successor": "",
                    "reason": "Dates go to the answer uncompared.",
                },
                "A new agent with this prompt stands between the agent and its successors.",
                lambda out: out.team.agents_by_id["date-comparer"].prompt == COMPARER
                and out.team.topology.order() == ("source", "date-comparer", "aggregator"),
            ),
        ),
    ),
    Feed(
        Run("hiva"),
        (
            GoodReply(
                SOURCE, FOUND, "The successors read it whole.",
                lambda out: f"From source:\n{FOUND}" in out.shown("agent"),
            ),
            GoodReply(
                "You give the team's final answer", ANSWER, "It is the team's answer, to the letter.",
                lambda out: all(done.answer == ANSWER for done in out.answered),
            ),
        ),
    ),
    Feed(
        Run("hiva", iterations=2, replies=CRITICAL),
        (
            GoodReply(
                "Instruction", {"instruction": HANDED}, "The next agent reads it in place of the output.",
                lambda out: f":\n{HANDED}" in out.shown("agent"),
            ),
        ),
    ),
    Feed(
        Run("hiva", {"environment": False}, iterations=1),
        (
            GoodReply(
                "SelfCriticism", {"criticism": DOUBT, "sentiment": "neutral", "good_enough": False},
                "The critics of the other agents read it. With `good_enough` true nothing would change.",
                lambda out: DOUBT in out.shown("AgentGradient"),
            ),
        ),
    ),
    Feed(
        Run("hiva", iterations=1, replies={**CRITICAL, "AgentGradient": YEARS_FEEDBACK}),
        (
            GoodReply(
                "ToolDecision", {**CREATE, "examples": []}, "Code is written for a tool of this name and description.",
                lambda out: f"<tool_description>\n{CREATE['description']}\n" in out.shown("ToolSource"),
            ),
            GoodReply(
                "ToolSource", {"source": FIRST_YEAR}, "The agent holds the tool from the next run on.",
                lambda out: "first_year" in out.team.agents_by_id["source"].tools
                and out.team.tools_by_name["first_year"].source == FIRST_YEAR,
            ),
        ),
    ),
)  # fmt: skip


def _prompt(out: Outcome, agent: str, *, same: bool) -> bool:
    return (out.team.agents_by_id[agent].prompt == out.seed.agents_by_id[agent].prompt) is same


DATES = "Orrin Bridge: opened in 1874 (passage 1). Kestrel Viaduct: opened on 4 May 1881 (passage 2)."
YEARS = "the years in which both bridges were opened, with their passages"
GOAL = "Subtract the years and give the answer. Researcher: offer the years. Writer: ask for them."
CALLS = [{"tool": "search", "arguments": '{"query": "opening of the Orrin Bridge"}'}]

DYTOPO = (
    Feed(
        Run("dytopo", {"rounds": 2}),
        (
            GoodReply(
                "TurnWithCalls",
                {"public": DATES, "private": DATES, "query": "", "key": YEARS, "calls": CALLS},
                "`private` is read in the next round by those whose `query` is close to this `key`, results of `calls` "
                "by the caller alone, and `public` by the manager.",
                lambda out: DATES in out.shown("Halting")
                and _reads(out, f"From Researcher, round 1]\n{DATES}", "TurnWithAnswerWithCalls")
                and _reads(out, "[Result of search, round 1]", "TurnWithCalls"),
            ),
            GoodReply(
                "TurnWithAnswerWithCalls",
                {"public": "The Orrin Bridge, by the passages; please confirm the years.", "private": "", "query": YEARS, "key": "", "answer": ANSWER,
                 "calls": []},
                "`query` gets the offers that are close to it; `answer` is the team's, to the letter.",
                lambda out: all(done.answer == ANSWER for done in out.answered)
                and {"Researcher", "Reasoner"} <= _senders(out),
            ),
            GoodReply(
                "Halting",
                {"is_complete": False, "next_goal": GOAL, "speakers": ["Writer", "Researcher"], "public": "Known."},
                "In the next round these two alone are asked, and work towards `next_goal`.",
                lambda out: {ask.scope.node for ask in out.asks if ask.role == "agent" and ask.scope.visit == 1}
                == {"Writer", "Researcher"}
                and _reads(out, f"<goal>\n{GOAL}\n</goal>", "TurnWithAnswerWithCalls"),
            ),
        ),
    ),
    Feed(
        Run("dytopo", {"rounds": 3, "domain": "math"}),
        (
            GoodReply(
                "TurnWithVerdictWithCalls",
                {
                    "public": "1881 - 1874 = 7, as the solution says; both years stand in the passages.", "private": "",
                    "query": "the solution with its steps", "key": "", "verdict": "pass", "calls": [],
                },
                "A run can only be complete after this verdict on the answer that stands; the manager reads it.",
                lambda out: "Its verdict: pass" in out.shown("Halting"),
            ),
        ),
    ),
)  # fmt: skip


def _reads(out: Outcome, text: str, step: str) -> bool:
    return text in out.shown(step)


def _senders(out: Outcome) -> set[str]:
    """Whose messages Writer reads in the second round of the last question."""
    steps = [step for step in out.answered[-1].steps if step.visit == 1 and step.agent == "Writer"]
    return {message.source for step in steps for message in step.inbox}


FEEDS: Mapping[str, Sequence[Feed]] = {"hiva": HIVA, "dytopo": DYTOPO}
