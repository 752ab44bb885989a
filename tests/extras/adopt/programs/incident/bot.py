from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, TypedDict

import yaml
from langchain.chat_models import init_chat_model
from langchain_core.messages import AnyMessage
from langgraph.graph import StateGraph, add_messages
from langgraph.runtime import Runtime, get_runtime

import defaults

SETTINGS = yaml.safe_load((Path(__file__).parent / "settings.yaml").read_text(encoding="utf-8"))


@dataclass(kw_only=True)
class Context:
    triage_prompt: str = field(
        default=defaults.TRIAGE_PROMPT,
        metadata={"description": "The prompt of the triage node."},
    )
    report_prompt: str = defaults.REPORT_PROMPT
    audience: str = "engineers"
    extra: list[str] = field(default_factory=lambda: ["Do not name customers."])


@dataclass
class State:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    service: str = ""
    severity: str = "sev2"


class Result(TypedDict, total=False):
    messages: list
    service: str
    severity: str


def get_llm():
    config = SETTINGS["model"]
    return init_chat_model(config["name"], temperature=config["temperature"])


async def triage(state: State, runtime: Runtime[Context]) -> Result:
    context = runtime.context or Context()
    system = context.triage_prompt.format(today=date.today().year)
    reply = await get_llm().ainvoke([{"role": "system", "content": system}, *state.messages])
    return {"service": reply.text, "severity": "sev1" if "checkout" in reply.text.lower() else "sev2"}


async def report(state: State) -> Result:
    context = get_runtime(Context).context or Context()
    parts = [context.report_prompt.format(audience=context.audience)]
    parts.extend(context.extra)
    parts.append(SETTINGS["severity"][state.severity])
    reply = await get_llm().ainvoke([("system", "\n".join(parts)), ("human", f"The service {state.service} is down.")])
    return {"messages": [reply]}


graph = StateGraph(State, context_schema=Context)
graph.add_node("triage", triage)
graph.add_node("report", report)
graph.set_entry_point("triage")
graph.add_edge("triage", "report")
incident_bot = graph.compile(name="Incident bot")
