"""Good replies: one per step, with the effect that it has, which `tests/test_prompts.py` holds it to."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfwire.evolvers.hera.library import Insight, Profile, get_library
from tests.prompts.runs import CREATE, CRITICAL, LAYERS, YEARS_FEEDBACK, Outcome, Run


@dataclass(frozen=True)
class GoodReply:
    """A reply to a step's prompt.

    Attributes:
        step: the title of a schema, or the beginning of an agent's instructions.
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
                "The decision on the team shows the parallelizability, and offers ADD_PARALLEL from 0.5 on.",
                lambda out: "<parallelizability>\n0.9" in out.shown("TopologyDecision")
                and "<operations>\nADD_PARALLEL" in out.shown("TopologyDecision"),
            ),
            GoodReply(
                "TopologyDecision",
                {
                    "operation": "ADD_SERIAL", "name": "date comparer", "description": COMPARER, "successor": "",
                    "reason": "Dates go to the answer uncompared.",
                },
                "A new agent with this prompt stands between the agent and its successors.",
                lambda out: COMPARER in [agent.prompt for agent in out.team.agents]
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
                "ToolSource", {"source": FIRST_YEAR, "calls": [json.dumps({"text": FOUND})]},
                "The tool is called with each of the inputs; the agent holds it from the next run on.",
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
                {
                    "public": "The Orrin Bridge; please confirm.", "private": "", "query": YEARS, "key": "",
                    "answer": ANSWER, "calls": [],
                },
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
        Run("dytopo", {"rounds": 2, "domain": "math"}),
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


ITEMS = (
    ("The answer names exactly one of the two bridges.", "correctness"),
    ("The work shows both years of opening with their passages.", "correctness"),
    ("The number of years is the difference of the two years.", "correctness"),
    ("The answer ends with a line that starts with 'Answer:'.", "correctness"),
    ("The year in which work began was taken for the year of opening.", "contradiction"),
)
SHORT = "You did not subtract the years."
RULE = "Show the subtraction with both years."
CHECKING = "Read the passages again and say for each year which event it belongs to."
COMPUTED = "1881 - 1874 = 7; the Orrin Bridge was opened first."

TACOMAS = (
    Feed(
        Run("tacomas", {"rounds": 3}),
        (
            GoodReply(
                "Checklist", {"items": [{"criterion": text, "operator": operator} for text, operator in ITEMS]},
                "The judge gets these items, numbered; nobody else sees them before one fails.",
                lambda out: f"5. (contradiction) {ITEMS[4][0]}" in out.shown("Verdict"),
            ),
            GoodReply(
                "Verdict",
                {
                    "results": [True, True, False, False, False], "impossible": [],
                    "reason": "Nobody subtracted the years, and there is no line 'Answer:'.",
                },
                "Three of five items pass, the contradiction by `false`: fewer than the threshold asks for, so that "
                "another round follows. What failed is the goal of the coach.",
                lambda out: f"<goal>\n- {ITEMS[2][0]}\n- {ITEMS[3][0]}\n</goal>" in out.shown("Refinement"),
            ),
            GoodReply(
                "Contributions",
                {
                    "scores": [
                        {"agent": "searcher", "score": 0.9, "reason": "You found both years with their passages."},
                        {"agent": "calculator", "score": 0.3, "reason": SHORT},
                    ]
                },
                "Whoever has less than 0.7 is coached, by this reason too; messages of those with more come first.",
                lambda out: f"[calculator]\ncontribution: 0.3. {SHORT}" in out.shown("Refinement")
                and "[searcher]\ncontribution" not in out.shown("Refinement"),
            ),
            GoodReply(
                "Refinement",
                {
                    "agents": [
                        {
                            "agent": "calculator", "errors": "The years were not subtracted.",
                            "plan": "Subtract the earlier year from the later one.", "kind": "prompt", "update": RULE,
                            "drop": [],
                        }
                    ]
                },
                "The agent reads it among its notes in the next rounds of this question.",
                lambda out: f"Rule: {RULE}" in out.shown("agent"),
            ),
            GoodReply(
                "SlowUpdate",
                {
                    "birth_death_pairs": [
                        {"v_dead": None, "v_new": {"role": "year checker", "goal": CHECKING, "tools": []}}
                    ],
                    "graph_edit": [
                        {"op": "edge_add", "source": "searcher", "target": "year checker"},
                        {"op": "edge_add", "source": "year checker", "target": "verifier"},
                    ],
                    "agent_feedback": [], "global_rationale": "Nobody checks what a year stands for.",
                    "time_control": "continue",
                },
                "From the next round on an agent with this job reads the searcher and writes to the verifier.",
                lambda out: f"You are the year checker of a team that works on one task together. Your job: {CHECKING}"
                in out.shown("agent") and "From year-checker:" in out.shown("agent"),
            ),
            GoodReply(
                "You are the calculator", COMPUTED, "Those whom the graph lets read it do so in the same round.",
                lambda out: f"From calculator:\n{COMPUTED}" in out.shown("agent"),
            ),
        ),
    ),
)  # fmt: skip

PART = "Say which of the two bridges was opened first, and by how many years."
WHERE = "The dates of both openings stand in passages 1 and 2."
SENT_BACK = "Both dates are given with their passages; the number of years between them is missing."

EVOMAS = (
    Feed(
        Run("evomas", {"adapter": "fixed", "plan": LAYERS[:2], "stages": 2}),
        (
            GoodReply(
                "Plan",
                {
                    "subtasks": [{"id": "", "goal": PART, "status": "TODO"}], "active": PART, "summary": "",
                    "hint": WHERE,
                },
                "The members of the next stage read the goal as their part of the task, and the hint.",
                lambda out: f"Your part of the task now, and nothing else: {PART}" in out.shown("agent")
                and f"From the planner:\n{WHERE}" in out.shown("agent"),
            ),
            GoodReply(
                "Assessed",
                {"feedback": SENT_BACK, "reward": 0, "refine": True, "confidence": 0.9, "answer": ANSWER},
                "The next stage has the same part, with this and the outcome that was sent back; where no stage is "
                "left, the answer is the team's, to the letter.",
                lambda out: f"Why the last try at this part was sent back: {SENT_BACK}" in out.shown("agent")
                and all(done.answer == ANSWER for done in out.answered),
            ),
            GoodReply(
                "Choice", {"thought": "The second one alone quotes a passage.", "solution_letter": "B"},
                "The second solution is the agent's output, unchanged.",
                lambda out: _outputs(out, "ensemble") == _solutions(out, "B"),
            ),
            GoodReply(
                "You are a member of a team that works on a task in parts. You answer", FOUND,
                "The agents of the next layer read it; of the last layer it is the outcome that the reviewer judges.",
                lambda out: f"From io:\n{FOUND}" in out.shown("agent"),
            ),
        ),
    ),
    Feed(
        Run(
            "evomas",
            {"adapter": "fixed", "plan": LAYERS[:1], "stages": 1},
            replies={"Assessed": {"feedback": "Good.", "reward": 1, "refine": False, "confidence": 0.9, "answer": ""}},
        ),
        (
            GoodReply(
                "LastAnswer", {"answer": ANSWER},
                "It is the team's answer, to the letter; it is asked for where the last judgement holds none.",
                lambda out: all(done.answer == ANSWER for done in out.answered),
            ),
        ),
    ),
)  # fmt: skip


def _outputs(out: Outcome, agent: str) -> set[str]:
    return {step.output.strip() for done in out.answered for step in done.steps if step.agent == agent}


def _solutions(out: Outcome, letter: str) -> set[str]:
    found = re.findall(
        rf"^{letter}\.\n(.*?)\n(?:\n[A-Z]\.|</solutions>)", out.shown("Choice"), re.DOTALL | re.MULTILINE
    )
    return {text.strip() for text in found}


KNOWN = Insight(
    profile=Profile(type="comparison", difficulty="easy", summary="Find two dates, then compare them."),
    text="Let the calculator compare the values.",
)
SORT: Mapping[str, Any] = {
    "query_type": "comparison",
    "difficulty": "easy",
    "summary": "Read off the dates of two events, then compare them and take their difference.",
}
PLANNED = ("evidence_selector", "calculator", "answer_generator")
PLAN: Mapping[str, Any] = {
    "execution_order": [
        {"step": 1, "agent": "evidence_selector", "depends_on": []},
        {"step": 2, "agent": "calculator", "depends_on": [1]},
        {"step": 3, "agent": "answer_generator", "depends_on": [1, 2]},
    ],
}
ADVICE = "Let the evidence_selector come before the calculator, which then compares what it is handed."
MERGED = "Let the evidence_selector find the values and the calculator compare them."
GIST = "It handed on one date where two are compared."
LISTED = "Name every event of the question, each with its date and the passage that states it."
FACTS = "Hand on every fact with its passage, and not the gist alone."

HERA = (
    Feed(
        Run("hera", insights=(KNOWN,)),
        (
            GoodReply(
                "QueryProfile", SORT,
                "Insights from questions of this type, or with a close summary, are shown to whoever plans.",
                lambda out: f"comparison question, easy. {SORT['summary']}" in out.shown("TopologyPlan")
                and f"- (comparison, utility 0.50) {KNOWN.text}" in out.shown("TopologyPlan"),
            ),
            GoodReply(
                "TopologyPlan", PLAN, "These agents work, in this order, and each reads the steps that it depends on.",
                lambda out: all(tuple(step.agent for step in done.steps) == PLANNED for done in out.answered)
                and all([m.source for m in done.steps[-1].inbox] == [*PLANNED[:2]] for done in out.answered),
            ),
            GoodReply(
                "You are the calculator of a team", COMPUTED, "Whoever depends on the step reads it whole.",
                lambda out: f"From calculator:\n{COMPUTED}" in out.shown("agent"),
            ),
            GoodReply(
                "You are the answer generator of a team", ANSWER, "It is the team's answer, to the letter.",
                lambda out: all(done.answer == ANSWER for done in out.answered),
            ),
        ),
    ),
    Feed(
        Run("hera", {"rope": False, "mutation": False, "group": 6}, 1, {"QueryProfile": SORT}, insights=(KNOWN,)),
        (
            GoodReply(
                "Reflection",
                {
                    "success_factors": ["The facts were selected before anything was computed."],
                    "failure_modes": ["The calculator was asked before any value was known."],
                    "insights": [{"query_type": "comparison", "insight": ADVICE}],
                },
                "The insight is compared with those of the library that concern such questions; the two lists beside "
                "it only help to find it.",
                lambda out: f"- (comparison) {ADVICE}" in out.shown("LibraryOperations"),
            ),
            GoodReply(
                "LibraryOperations",
                {
                    "operations": [
                        {
                            "operation": "MERGE", "new_insight": ADVICE, "target_entry_ids": [KNOWN.id],
                            "merged_insight": MERGED, "rationale": "The new one says what comes before.",
                        }
                    ]
                },
                "The entry has the merged text from now on, with the evidence of both, and is shown in plans.",
                lambda out: [insight.text for insight in get_library(out.team)] == [MERGED]
                and f") {MERGED}" in out.shown("TopologyPlan"),
            ),
        ),
    ),
    Feed(
        Run("hera", {"library": False, "mutation": False}, 2, {"TopologyPlan": PLAN}),
        (
            GoodReply(
                "FailedAgent", {"agent": "evidence_selector", "cause": GIST},
                "Variants of this agent's prompt are tried on the question, and their writer reads the cause.",
                lambda out: "<agent>\nevidence_selector\n</agent>" in out.shown("PromptVariant")
                and f"blamed for: {GIST}" in out.shown("PromptVariant"),
            ),
            GoodReply(
                "PromptVariant", {"instructions": [LISTED]},
                "The question is answered once more with it in the agent's prompt, all else being equal.",
                lambda out: f"- {LISTED}" in out.shown("agent") and f"adds: {LISTED}" in out.shown("Contrast"),
            ),
            GoodReply(
                "Contrast",
                {
                    "operational_rules": [
                        {"rule": FACTS, "derived_from": "efficiency: with the gist alone the next agents lacked facts"}
                    ],
                    "behavioral_principles": [],
                },
                "The rule is added to the agent's prompt, and proposed to whoever maintains a prompt with rules.",
                lambda out: FACTS in out.team.agents_by_id["evidence_selector"].prompt
                and f"rule: {FACTS}" in out.shown("PromptDiff"),
            ),
            GoodReply(
                "PromptDiff", {"added_rules": [], "added_principles": [], "deleted": [], "replaced": []},
                "The prompt stays as it is: it has the proposed rule already, and no line is to stand there twice.",
                lambda out: out.team.agents_by_id["evidence_selector"].prompt.count(f"- {FACTS}") == 1
                and "PromptDiff" in {ask.step for ask in out.asks},
            ),
        ),
    ),
    Feed(
        Run(
            "hera", {"library": False, "rope": False}, 1,
            {"TopologyPlan": PLAN, "FailedAgent": {"agent": "answer_generator"}, COMPARER: ANSWER},
        ),
        (
            GoodReply(
                "Mutation",
                {
                    "alternative": "conclude_agent", "name": "date comparer", "role": "Compares dates.",
                    "instruction": COMPARER, "tools": [],
                },
                "The question is tried with the other agent in the blamed one's place, and with the new one after it; "
                "the new one stays in the team if that run succeeds.",
                lambda out: "conclude_agent" in _ran(out) and COMPARER in [agent.prompt for agent in out.team.agents],
            ),
        ),
    ),
)  # fmt: skip


def _ran(out: Outcome) -> set[str]:
    return {ask.scope.node for ask in out.asks if ask.step == "agent"}


FEEDS: Mapping[str, Sequence[Feed]] = {
    "hiva": HIVA,
    "hera": HERA,
    "tacomas": TACOMAS,
    "dytopo": DYTOPO,
    "evomas": EVOMAS,
}
