"""Incident commander. One class per node; the model is in the runtime context."""
from __future__ import annotations

import abc
import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain.chat_models import init_chat_model
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from runbooks import RUNBOOKS, lookup


@dataclass
class Ctx:
    """Context of an incident run."""

    model: str = "openai:gpt-4.1"
    oncall: str = "the platform team"
    extra_rules: list[str] = field(default_factory=list)


class Incident(TypedDict, total=False):
    alert: str
    service: str
    hypotheses: Annotated[list[str], operator.add]
    evidence: str
    attempts: int
    postmortem: str


class Hypothesis(BaseModel):
    """A falsifiable guess about the cause."""

    guess: str = Field(description="cause, in one line")
    probe: str = Field(description="what to look at to refute it")
    runbook: Literal["db", "net", "none"] = Field("none", description="closest runbook")


class Step(abc.ABC):
    PROMPT: ClassVar[str] = "You are an incident commander for {oncall}."
    ASK: ClassVar[str]

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def llm(self, runtime: Runtime[Ctx]):
        return init_chat_model(runtime.context.model, temperature=0)

    def messages(self, runtime: Runtime[Ctx], **values):
        system = self.PROMPT.format(oncall=runtime.context.oncall)
        for n, rule in enumerate(runtime.context.extra_rules, start=1):
            system += f"\nRule {n}: {rule}"
        return [("system", system), ("human", self.ASK.format(**values))]

    @abc.abstractmethod
    def __call__(self, state: Incident, runtime: Runtime[Ctx]): ...


class Hypothesise(Step):
    """Guess what is wrong."""

    ASK = "Alert on {service}: {alert}\nAlready refuted:\n{refuted}\nGive a new hypothesis."

    def __call__(self, state: Incident, runtime: Runtime[Ctx]):
        h = self.llm(runtime).with_structured_output(Hypothesis).invoke(
            self.messages(
                runtime,
                service=state["service"],
                alert=state["alert"],
                refuted="\n".join(state.get("hypotheses", [])) or "nothing yet",
            )
        )
        return {"hypotheses": [h.model_dump_json()], "attempts": state.get("attempts", 0) + 1}


def query_metrics(service: str, metric: str = "latency_p99") -> str:
    """Not for models: wraps the Prometheus client."""
    return json.dumps({"service": service, "metric": metric, "points": [120, 340, 2900]})


def tail_logs(service: str, lines: int = 50) -> str:
    """Return the newest log lines of a service."""
    return f"[{service}] ERROR pool exhausted\n" * min(lines, 3)


class LogArgs(BaseModel):
    service: str = Field(description="service as in the catalogue, e.g. checkout-api")
    lines: int = Field(default=50, description="how many lines, at most 500")


TOOLS = [
    StructuredTool.from_function(
        query_metrics, name="metrics", description="Query one metric of one service over the last hour."
    ),
    StructuredTool.from_function(tail_logs, args_schema=LogArgs),
    lookup,
]


@dynamic_prompt
def prober_prompt(request: ModelRequest) -> str:
    text = "You gather evidence. You may read, never write."
    if len(request.messages) > 8:
        text += " You have looked long enough: conclude now."
    return text


prober = create_agent("openai:gpt-4.1-mini", tools=TOOLS, middleware=[prober_prompt], name="prober")


class Probe(Step):
    def __call__(self, state: Incident, runtime: Runtime[Ctx]) -> Command[Literal["hypothesise", "writeup"]]:
        h = json.loads(state["hypotheses"][-1])
        book = RUNBOOKS.get(h["runbook"], {}).get("steps", "No runbook applies.")
        out = prober.invoke({"messages": "Refute this: {guess}. Start with: {probe}.\n".format_map(h) + book})
        text = out["messages"][-1].content
        if "REFUTED" in text and state["attempts"] < 4:
            return Command(goto="hypothesise")
        return Command(update={"evidence": text}, goto="writeup")


class WriteUp(Step):
    PROMPT = Step.PROMPT + " Write blamelessly."
    ASK = """# Post-mortem request
Service: {service}
Evidence:
{evidence}

Sections: Impact, Cause, What went well, Actions."""

    def __call__(self, state: Incident, runtime: Runtime[Ctx]):
        answer = self.llm(runtime).invoke(self.messages(runtime, service=state["service"], evidence=state["evidence"]))
        return {"postmortem": answer.text}


def create_graph():
    g = StateGraph(Incident, context_schema=Ctx)
    for step in (Hypothesise(), WriteUp()):
        g.add_node(step.name, step)
    g.add_node("probe", Probe(), destinations=("hypothesise", "writeup"))
    g.add_edge(START, "hypothesise")
    g.add_edge("hypothesise", "probe")
    g.add_edge("writeup", END)
    return g.compile()
