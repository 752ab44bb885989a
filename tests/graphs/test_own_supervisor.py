"""A supervisor of the user's own with three planted faults is mended on its own tasks, and taken home."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.commands import call
from tests.wire.server import Body, WireServer, asked_kind

APP = '''
import os
from typing import Annotated

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
LEAD = "You lead a clinic. Hand every patient over to a colleague."
NURSE = "You are the nurse. You help."
DOCTOR = "You are the doctor. End with the room of the patient."
SUM_UP = """Sum up the visit.

The colleague said: {said}"""


class Visit(MessagesState):
    answer: str


def hand_over(name: str, purpose: str):
    @tool(f"send_to_{name}", description=purpose)
    def handoff(call_id: Annotated[str, InjectedToolCallId], state: Annotated[dict, InjectedState]) -> Command:
        done = ToolMessage(f"Sent to the {name}.", name=f"send_to_{name}", tool_call_id=call_id)
        return Command(goto=name, graph=Command.PARENT, update={"messages": [*state["messages"], done]})

    return handoff


to_nurse = hand_over("nurse", "For patients with a fever.")
to_doctor = hand_over("doctor", "For patients with a scratch.")
lead = create_agent(model, [to_nurse, to_doctor], system_prompt=LEAD, name="lead")
nurse = create_agent(model, [], system_prompt=NURSE, name="nurse")
doctor = create_agent(model, [], system_prompt=DOCTOR, name="doctor")


def sum_up(state: Visit) -> dict:
    return {"answer": model.invoke(SUM_UP.format(said=state["messages"][-1].text)).text}


builder = StateGraph(Visit)
builder.add_node("lead", lead, destinations=("nurse", "doctor"))
builder.add_node("nurse", nurse)
builder.add_node("doctor", doctor)
builder.add_node(sum_up)
builder.add_edge(START, "lead")
builder.add_edge("nurse", "sum_up")
builder.add_edge("doctor", "sum_up")
builder.add_edge("sum_up", END)
graph = builder.compile()
'''
GRADER = '''
def grade(task, answer: str) -> float:
    """A third each for the colleague, the room and the check."""
    who = task.reference
    return ((f"{who} has" in answer) + (f"room {who[0]}1" in answer) + ("checked" in answer)) / 3
'''
CHECKER = "Read the visit again, check it, and say that it is checked."
NURSES, DOCTORS = "For patients with a scratch.", "For patients with a fever."


def criticise(concerns: str = "none", *, prompt: str = "", tool: str = "", overall: str = "") -> Body:
    return {
        "system_prompt_feedback": prompt,
        "tool_feedback": tool,
        "overall_feedback": overall,
        "concerns": concerns,
        "sentiment": "positive" if concerns == "none" else "critical",
    }


class Clinic:
    """The model behind everything: it follows prompts and descriptions to the letter, and its critic sees the faults.

    The critic exchanges the two descriptions, so that the new text of each is the old one of the other.
    """

    async def __call__(self, body: Body) -> AIMessage:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        if kind := asked_kind(body):
            return AIMessage(json.dumps(self.improve(kind, said)))
        if tools := body.get("tools"):
            sign = "fever" if "fever" in str(body["messages"][1]["content"]) else "scratch"
            fitting = [tool["function"] for tool in tools if sign in tool["function"]["description"]]
            return AIMessage("", tool_calls=[{"id": "c1", "name": fitting[0]["name"], "args": {}}])
        system = str(body["messages"][0]["content"])
        if system.startswith("You are the "):
            who = system.split()[3].strip(".")
            return AIMessage(f"The {who} has the patient" + (f", room {who[0]}1." if "room" in system else "."))
        if "<text>" in said:
            text = said.partition("<text>\n")[2].partition("\n</text>")[0]
            return AIMessage(f"{text} It is checked." if CHECKER in said else text)
        return AIMessage(said.partition("The colleague said: ")[2])

    def improve(self, kind: str, said: str) -> Body:
        if kind == "GlobalGradient":
            return {"feedback": "Wrong colleague, no room, no check.", "own_feedback": "", "sentiment": "critical"}
        if kind == "AgentGradient":
            role = said.partition("<role>")[2].partition("</role>")[0]
            if "You lead a clinic" in role:
                return criticise(
                    "semantics", tool="send_to_nurse and send_to_doctor are described the wrong way round."
                )
            if "You are the nurse" in role:
                return criticise("semantics", prompt="Say that the room is needed.")
            if "Sum up the visit" in role:
                return criticise("topology", overall="A step that checks the visit is missing.")
            return criticise()
        if kind == "ProgramEdit":
            none = dict.fromkeys(("place", "name", "description", "reason"), "")
            inserted = {"place": "sum_up.answer", "name": "checker", "description": CHECKER, "reason": "Nobody checks."}
            return none if CHECKER in said else inserted
        name = said.partition("<name>")[2].partition("</name>")[0]
        if "send_to" in name:
            return {"prompt": NURSES if "nurse" in name else DOCTORS}
        if "You are the nurse" in said:
            return {"prompt": "You are the nurse. End with the room of the patient."}
        return {"prompt": "You lead a clinic. Hand every patient over to a colleague."}


SIGNS = (("fever", "doctor"), ("scratch", "nurse"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("clinic_app.py").write_text(APP, encoding="utf-8")
    Path("clinic_grader.py").write_text(GRADER, encoding="utf-8")
    rows = [{"input": f"Patient {n} has a {SIGNS[n % 2][0]}.", "reference": SIGNS[n % 2][1]} for n in range(80)]
    Path("visits.jsonl").write_text("\n".join(map(json.dumps, rows[:60])), encoding="utf-8")
    Path("later.jsonl").write_text("\n".join(map(json.dumps, rows[60:])), encoding="utf-8")
    with WireServer(Clinic()) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield tmp_path / "home"


GRADED = ("--grader", "clinic_grader.py:grade")


def score(home: Path, graph: str) -> float:
    asked = ("--set", "answer=answer") if ":" in graph else ()
    found: Any = json.loads(call(home, "eval", graph, "--benchmark", "later.jsonl", *GRADED, *asked, "--json").stdout)
    return float(found["systems"][-1]["score"])


def test_a_supervisor_with_three_faults_is_mended_and_taken_home(home: Path) -> None:
    assert score(home, "clinic_app.py:graph") < 0.34
    sizes = ("--train", "12", "--gate-size", "30", "--gate-tasks", "10", "--test", "0", "--batch", "4")
    frozen = ("--freeze", "agent:doctor", "--freeze", "agent:sum-up")
    asked = ("--set", "answer=answer", "--model", "openai:mine", "--base-url", os.environ["MY_MODEL"], "--retries", "0")
    call(
        home,
        "evolve",
        "clinic_app.py:graph",
        "--benchmark",
        "visits.jsonl",
        *GRADED,
        *asked,
        *sizes,
        *frozen,
        "--iterations",
        "3",
        "--name",
        "clinic",
    )
    assert score(home, "clinic") == 1
    patch = call(home, "export", "clinic", "mine.patch").output
    assert "git apply mine.patch" in patch
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("clinic_app.py").read_text(encoding="utf-8")
    assert f'to_nurse = hand_over("nurse", "{NURSES}")' in patched
    assert f'to_doctor = hand_over("doctor", "{DOCTORS}")' in patched
    assert 'NURSE = "You are the nurse. End with the room of the patient."' in patched
    assert CHECKER in patched
    for frozen_part in (
        'DOCTOR = "You are the doctor. End with the room of the patient."',
        'SUM_UP = """Sum up the visit.',
    ):
        assert frozen_part in patched
    Path("mended_clinic.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    assert score(home, "mended_clinic.py:graph") == 1
