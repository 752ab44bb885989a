"""A model that works carefully: each reply is a function of what stands in the request, whichever method asks.

Tasks of three kinds have a trap each. Whoever solves one alone falls into it; whoever reads the lesson of a
reviewer, who has seen a wrong answer, does not. A run is right where its method brings the lesson to who answers.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import ClassVar

from langchain_core.messages import AIMessage

from selfwire.core.task import Task
from tests.request_parts import read_instructions, read_messages
from tests.scripted import section
from tests.wire.server import Answer, Body, asked_kind


class Family(ABC):
    """Tasks of one kind, solved from their text alone.

    Attributes:
        lesson: of a reviewer who sees what went wrong, in words that hold for any task of the kind.
        criteria: of a checklist, drafted from the task alone; the first is what the trap violates.
    """

    name: ClassVar[str]
    lesson: ClassVar[str]
    criteria: ClassVar[Sequence[str]]

    @abstractmethod
    def make(self, number: int) -> Task:
        """A task."""

    @abstractmethod
    def draft(self, task: str) -> str:
        """The answer of somebody who does not see the trap."""

    @abstractmethod
    def solve(self, task: str) -> str:
        """The right answer."""

    @abstractmethod
    def grade(self, task: Task, answer: str) -> tuple[bool, str]:
        """Whether an answer is right, and what is wrong with it."""

    @abstractmethod
    def find(self, text: str) -> str:
        """The first answer in a text; "" if there is none."""


class Passages(Family):
    """Questions with passages, whose lengths have different units."""

    name = "passages"
    lesson = "Convert both lengths to the same unit before you compare them."
    criteria = (
        "Both lengths are compared in the same unit.",
        "The work shows both lengths with their passages.",
        "The answer names one of the two bridges.",
        "The answer has a line that starts with 'Answer:'.",
        "The named bridge is the one with the greater length in the work.",
    )
    NAMES = ("Rald", "Tove", "Orrin", "Kestrel", "Ilm", "Veld", "Marn", "Sund")

    def make(self, number: int) -> Task:
        first, second = (self.NAMES[(number + step) % len(self.NAMES)] for step in (0, 1))
        metres = 300 + 10 * number
        text = (
            f"Which bridge is longer, the {first} Bridge or the {second} Bridge?\n\n"
            f"[1] {first} Bridge\nThe {first} Bridge, opened in {1900 + number}, is {metres} metres long.\n\n"
            f"[2] {second} Bridge\nThe {second} Bridge over the Ilm has a length of {3 * metres} feet.\n\n"
            "End with a line that starts with 'Answer:' and gives only the name."
        )
        return Task(id=f"bridge-{number}", input=text, reference=f"{first} Bridge")

    def draft(self, task: str) -> str:
        return self.compare(task, lambda feet: feet)

    def solve(self, task: str) -> str:
        return self.compare(task, lambda feet: 0.3048 * feet)

    def compare(self, task: str, convert: Callable[[float], float]) -> str:
        """Name the longer bridge.

        Args:
            convert: feet to metres.
        """
        found = re.findall(r"The (\w+ Bridge)\b[^.\n]*? (\d+) (metres|feet)", task)
        lengths = {name: convert(float(length)) if unit == "feet" else float(length) for name, length, unit in found}
        return f"Answer: {max(lengths, key=lambda name: lengths[name])}"

    def grade(self, task: Task, answer: str) -> tuple[bool, str]:
        right = answer.strip().endswith(str(task.reference))
        return right, "" if right else "The other bridge is longer."

    def find(self, text: str) -> str:
        found = re.search(r"Answer: \w+ Bridge", text)
        return found[0] if found else ""


class Programs(Family):
    """Programs with tests, some of them on lists of even length."""

    name = "program"
    lesson = "Mind lists of even length: their median is the mean of the two middle values."
    criteria = (
        "The program handles lists of even length.",
        "The program is complete.",
        "The function has the name that the task gives.",
        "The answer is one fenced code block.",
        "The program sorts or selects.",
    )
    TESTS = (([3, 1, 2], 2), ([4, 1, 3, 2], 2.5))

    def make(self, number: int) -> Task:
        text = (
            f"Write a Python function `median_{number}(values)` that returns the median of a list of numbers. "
            "Reply with one fenced code block."
        )
        return Task(id=f"median-{number}", input=text)

    def _program(self, task: str, even: str) -> str:
        [name] = set(re.findall(r"`(median_\d+)\(values\)`", task))
        return f"```python\ndef {name}(values):\n    ordered = sorted(values)\n    {even}\n```"

    def draft(self, task: str) -> str:
        return self._program(task, "return ordered[len(ordered) // 2]")

    def solve(self, task: str) -> str:
        return self._program(task, "return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2")

    def grade(self, task: Task, answer: str) -> tuple[bool, str]:
        name, scope = re.findall(r"`(median_\d+)", task.input)[0], dict[str, Callable[[list[int]], float]]()
        exec(re.sub(r"^```.*$", "", answer, flags=re.MULTILINE), {}, scope)
        for values, wanted in self.TESTS:
            if (got := scope[name](values)) != wanted:
                return False, f"{name}({values}) gives {got}, not {wanted}"
        return True, ""

    def find(self, text: str) -> str:
        found = re.search(r"```python\n.*?\n```", text, re.DOTALL)
        return found[0] if found else ""


class Plans(Family):
    """Plans under constraints, which the jobs as they are listed do not meet."""

    name = "plan"
    lesson = "Go through the constraints one by one, and move each job that breaks one."
    criteria = (
        "Every constraint is met.",
        "Every job stands in the order once.",
        "The order has no other jobs.",
        "The answer has a line that starts with 'Order:'.",
        "The order is one line.",
    )
    JOBS = ("paint", "plaster", "wire", "sweep", "tile", "glaze")

    def make(self, number: int) -> Task:
        jobs = [*permutations(self.JOBS, 4)][number]
        wanted = [jobs[2], jobs[0], jobs[3], jobs[1]]
        rules = "\n".join(f"- {first} before {second}" for first, second in pairwise(wanted))
        text = (
            f"Put these jobs into an order that meets all constraints.\n\nJobs: {', '.join(jobs)}\n\n"
            f"Constraints:\n{rules}\n\nEnd with a line that starts with 'Order:' and lists the jobs."
        )
        return Task(id=f"jobs-{number}", input=text)

    def draft(self, task: str) -> str:
        return f"Order: {', '.join(re.findall(r'^Jobs: (.+)$', task, re.MULTILINE))}"

    def solve(self, task: str) -> str:
        jobs, rules = self.draft(task).removeprefix("Order: ").split(", "), self._rules(task)
        order: list[str] = []
        while len(order) < len(jobs):
            free = [job for job in jobs if job not in order and all(a in order for a, b in rules if b == job)]
            order.append(free[0])
        return f"Order: {', '.join(order)}"

    def _rules(self, task: str) -> list[tuple[str, str]]:
        return re.findall(r"^- (\w+) before (\w+)$", task, re.MULTILINE)

    def grade(self, task: Task, answer: str) -> tuple[bool, str]:
        order = self.find(answer).removeprefix("Order: ").split(", ")
        broken = [f"{a} before {b}" for a, b in self._rules(task.input) if order.index(a) > order.index(b)]
        return not broken, f"Not met: {', '.join(broken)}" if broken else ""

    def find(self, text: str) -> str:
        found = re.search(r"Order: \w+(?:, \w+)+", text)
        return found[0] if found else ""


FAMILIES = (Passages(), Programs(), Plans())


@dataclass(frozen=True)
class Asked:
    """A request as a careful model reads it.

    Attributes:
        kind: of the reply; "" for plain text.
        instructions: of whoever is asked.
        seed: by which a model draws, where it draws at all.
        tools: names of the tools on offer.
        results: of tools that were called.
    """

    family: Family
    kind: str
    instructions: str
    user: str
    seed: int
    tools: tuple[str, ...]
    results: tuple[str, ...]

    @classmethod
    def of(cls, body: Body, family: Family) -> "Asked":
        """Read a request."""
        said: dict[str, list[str]] = {}
        for message in body["messages"]:
            said.setdefault(message["role"], []).append(str(message["content"]))
        tools = tuple(str(tool["function"]["name"]) for tool in body.get("tools") or ())
        user, seed = said["user"][-1], int(body.get("seed") or 0)
        instructions = read_instructions("".join(said["system"]), user)
        return cls(family, asked_kind(body), instructions, user, seed, tools, tuple(said.get("tool", ())))

    def __getitem__(self, name: str) -> str:
        """A section of the prompt."""
        return section(self.user, name)

    @property
    def task(self) -> str:
        """The task's text."""
        return self["task"]

    @property
    def inbox(self) -> str:
        """What colleagues say."""
        return read_messages(self.user)

    def knows_lesson(self, name: str = "") -> bool:
        """Whether the lesson stands in a section, or else anywhere in the request."""
        return self.family.lesson in (self[name] if name else self.instructions + self.user)

    def is_wrong(self, text: str) -> bool:
        """Whether the first answer in a text is the one that falls into the trap."""
        return self.family.find(text) == self.family.draft(self.task)

    def work(self) -> str:
        """The answer: by the lesson where it is known, else a colleague's, else the draft."""
        if self.knows_lesson():
            return self.family.solve(self.task)
        return self.family.find(self.inbox) or self.family.draft(self.task)


Play = Callable[[Asked], Body | str | AIMessage]
"""What a careful model says in a method's place."""


def make_answer(play: Play, family: Family) -> Answer:
    """Answer requests of a method about a family's tasks."""

    async def answer(body: Body) -> AIMessage:
        said = play(Asked.of(body, family))
        if isinstance(said, AIMessage):
            return said
        return AIMessage(said if isinstance(said, str) else json.dumps(said))

    return answer


NO_TOOL = "It converts feet in its head; it lacks a tool that turns feet into metres."
NO_CHANGE: Body = {"operation": "NO_CHANGE"}


def play_dytopo(asked: Asked) -> Body | str:
    """One member answers and shows the draft to the one who checks, who hands back what is wrong with it."""
    family, lines = asked.family, asked.instructions + asked.user
    needs = {"answer": "the answer to check", "fault": "what is wrong with the answer"}
    silent = {"public": "Nothing new from me.", "private": "", "query": "", "key": ""}
    if asked.kind == "Halting":
        checked = "I found no fault." in asked["trace"]
        goal = "Writer and Developer: ask for what is wrong. Reasoner and Tester: ask for the answer, offer its fault."
        return {
            "is_complete": checked,
            "next_goal": "" if checked else goal,
            "speakers": [],
            "public": "So far so good.",
        }
    answers = re.search(r"You are the (writer|developer)", lines) is not None
    checks = re.search(r"You are the (reasoner|tester)", lines) is not None
    if answers:
        answer = family.solve(asked.task) if asked.knows_lesson("memory") else family.draft(asked.task)
        field = {"answer": answer} if "- answer:" in asked["fields"] else {}
        return {"public": answer, "private": answer, "query": needs["fault"], "key": needs["answer"], **field}
    if not checks:
        return silent
    handed = asked["memory"].rpartition("[From ")[2]
    shown = family.find(handed.replace("(the answer, shown apart)", asked["answer"].replace("```\n", "```python\n", 1)))
    if not shown:
        found: Body = {**silent, "query": needs["answer"], "verdict": "open"}
    elif asked.is_wrong(shown):
        found = {
            "public": "The answer has a fault, which I offer.", "private": family.lesson, "verdict": "fail",
            "query": needs["answer"], "key": needs["fault"],
        }  # fmt: skip
    else:
        found = {**silent, "public": "I found no fault.", "verdict": "pass"}
    return (
        found if "- verdict:" in asked["fields"] else {name: said for name, said in found.items() if name != "verdict"}
    )


def play_tacomas(asked: Asked) -> Body | str:
    """The judge finds the criterion that fails; coach or meta-model says what to do about it."""
    family = asked.family
    if asked.kind == "Checklist":
        return {"items": [{"criterion": text, "operator": "correctness"} for text in family.criteria]}
    if asked.kind == "Verdict":
        listed = re.findall(r"^\d+\. \(correctness\) (.+)$", asked["checklist"], re.MULTILINE)
        wrong = asked.is_wrong(asked["answer"])
        return {
            "results": [not (wrong and one == family.criteria[0]) for one in listed],
            "impossible": [],
            "reason": "",
        }
    if asked.kind == "Contributions":
        names = re.findall(r"^\[([a-z_ -]+)\] ", asked["agents"], re.MULTILINE)
        weak = {"calculator"} if asked.is_wrong(asked["answer"]) else set()
        return {"scores": [{"agent": name, "score": 0.3 if name in weak else 0.7, "reason": "So."} for name in names]}
    lacks = family.criteria[0] in asked["goal"]
    if asked.kind == "Refinement":
        advice = {
            "agent": "calculator",
            "errors": "",
            "plan": "",
            "kind": "prompt",
            "update": family.lesson,
            "drop": [],
        }
        return {"agents": [advice] if lacks and "[calculator]" in asked["agents"] else []}
    if asked.kind == "SlowUpdate":
        born, edges = {"v_dead": None, "v_new": {"role": "second maker", "goal": family.lesson, "tools": []}}, (
            ("edge_add", "searcher", "second maker"), ("edge_add", "second maker", "verifier"),
            ("edge_remove", "calculator", "verifier"),
        )  # fmt: skip
        return {
            "birth_death_pairs": [born] if lacks else [], "agent_feedback": [], "global_rationale": "",
            "graph_edit": [dict(zip(("op", "source", "target"), edge, strict=True)) for edge in edges if lacks],
            "time_control": "continue",
        }  # fmt: skip
    if asked.instructions.startswith(("You are the planner", "You are the searcher")):
        return "The task gives all that is needed."
    return asked.work()


def play_evomas(asked: Asked) -> Body | str:
    """The reviewer sends back what is wrong, with the lesson."""
    family = asked.family
    if asked.kind == "Plan":
        return {"subtasks": [{"id": "s1", "goal": "", "status": "TODO"}] if "[s1]" in asked["state"] else
                [{"id": "", "goal": "Do the task and check the result.", "status": "TODO"}],
                "active": "s1", "summary": "", "hint": ""}  # fmt: skip
    if asked.kind == "Assessed":
        wrong = asked.is_wrong(asked["outcome"])
        feedback = family.lesson if wrong else "It holds."
        judged = {"feedback": feedback, "reward": int(not wrong), "refine": True, "confidence": 0.9}
        closes = "answer to the whole task" in asked.instructions
        return {**judged, "answer": family.find(asked["outcome"])} if closes else judged
    if asked.kind == "LastAnswer":
        passed = re.split(r"^\[\d+, passed\]", asked["findings"], flags=re.MULTILINE)
        return {"answer": family.find(passed[-1])}
    return family.solve(asked.task) if family.lesson in asked.inbox else family.draft(asked.task)


def play_hiva(asked: Asked) -> Body | str | AIMessage:
    """The critic of a wrong answer asks for a better prompt, for somebody who checks, and for a tool that converts."""
    family, lesson, converts = asked.family, asked.family.lesson, isinstance(asked.family, Passages)
    if asked.kind == "GlobalGradient":
        wrong = asked.is_wrong(asked["answer"])
        return {
            "feedback": lesson if wrong else "",
            "own_feedback": "",
            "sentiment": "neutral" if wrong else "positive",
        }
    if asked.kind == "AgentGradient":
        wrong = asked.is_wrong(asked["output"]) and asked.knows_lesson("successor_feedback")
        return {
            "system_prompt_feedback": lesson if wrong and not converts else "",
            "tool_feedback": NO_TOOL if wrong and converts else "",
            "overall_feedback": f"Nobody checks the result. {lesson}" if wrong else "",
            "concerns": "both" if wrong else "none", "sentiment": "critical" if wrong else "positive",
        }  # fmt: skip
    if asked.kind == "ToolDecision":
        wanted = NO_TOOL in asked["gradients"] and "CREATE_TOOL" in asked["operations"]
        tool = {"operation": "CREATE_TOOL", "tool": "to_metres", "description": "Takes feet and returns metres."}
        return tool if wanted else NO_CHANGE
    if asked.kind == "ToolSource":
        return {
            "source": "def tool_function(feet: float) -> float:\n    return feet * 0.3048\n",
            "calls": ['{"feet": 1}'],
        }
    if asked.kind == "PromptRewrite":
        return {"prompt": f"{asked['prompt']} {lesson if asked.knows_lesson('gradients') else ''}".strip()}
    if asked.kind == "TaskProfile":
        return {
            "main_concept": family.name,
            "broader": [],
            "concepts": [],
            "required_tools": [],
            "parallelizability": 0,
        }
    if asked.kind == "TopologyDecision":
        wanted = asked.knows_lesson("gradients") and "ADD_SERIAL" in asked["operations"]
        described = f"You check results and correct them. {lesson}"
        return {"operation": "ADD_SERIAL", "name": "checker", "description": described} if wanted else NO_CHANGE
    if "to_metres" in asked.tools and not asked.results:
        [feet] = re.findall(r"(\d+) feet", asked.task)
        return AIMessage("", tool_calls=[{"name": "to_metres", "args": {"feet": float(feet)}, "id": "1"}])
    if isinstance(family, Passages) and asked.results:
        return family.compare(asked.task, lambda feet: float(asked.results[-1]))
    return asked.work()


def play_hera(asked: Asked, *, draws: bool = True) -> Body | str:
    """Plans with and without a review are compared; an agent's prompt is varied, and what helped is kept.

    Args:
        draws: whether the plans of a group differ.
    """
    lesson = asked.family.lesson
    if asked.kind == "QueryProfile":
        return {"query_type": "other", "difficulty": "easy", "summary": "Do the work and check it."}
    if asked.kind == "TopologyPlan":
        return {"execution_order": [
            {"step": at, "agent": name, "depends_on": [at - 1] if at > 1 else []}
            for at, name in enumerate(_choose_agents(asked, draws), 1)
        ]}  # fmt: skip
    if asked.kind == "Reflection":
        runs = re.split(r"^trajectory \d+: ", asked["group"], flags=re.MULTILINE)[1:]
        plans = {(run.startswith("a success"), re.findall(r"^topology: (.+)$", run, re.MULTILINE)[0]) for run in runs}
        helped = [
            name for name in ("reflect_agent", "checker") if all((name in plan) == success for success, plan in plans)
        ]
        return {"success_factors": [], "failure_modes": [], "insights": [
            {"query_type": "other", "insight": f"Let {name} follow answer_generator."} for name in helped
        ]}  # fmt: skip
    if asked.kind == "LibraryOperations":
        new = re.findall(r"Let \w+ follow answer_generator\.", asked["new"])
        return {"operations": [{"operation": "ADD", "new_insight": text, "target_entry_ids": []} for text in new]}
    if asked.kind == "FailedAgent":
        return {"agent": "answer_generator", "cause": "It did not check its result."}
    if asked.kind == "Mutation":
        told = f"You check results and correct them. {lesson}"
        return {"alternative": "conclude_agent", "name": "checker", "role": "Checks results.", "instruction": told,
                "tools": []}  # fmt: skip
    if asked.kind == "PromptVariant":
        thorough = asked["axis"].startswith("thoroughness")
        return {"instructions": [lesson if thorough else "Write as little as you can."]}
    if asked.kind == "Contrast":
        runs = re.split(r"^variant ", asked["variants"], flags=re.MULTILINE)[1:]
        helped = re.findall(r"^adds: (.+)$", "\n".join(run for run in runs if "score 1" in run), re.MULTILINE)
        return {"operational_rules": [{"rule": rule} for rule in helped], "behavioral_principles": []}
    if "You are the reflect agent" in asked.instructions:
        return lesson if asked.is_wrong(asked.inbox) else "I found no mistake."
    return asked.work()


def _choose_agents(asked: Asked, draws: bool) -> tuple[str, ...]:
    """The agents of a plan: those that insights recommend, else one draw in two has a review."""
    if "checker" in asked["insights"]:
        return ("answer_generator", "checker")
    if "reflect_agent" in asked["insights"] or (draws and asked.seed % 2):
        return ("answer_generator", "reflect_agent", "conclude_agent")
    return ("answer_generator",)
