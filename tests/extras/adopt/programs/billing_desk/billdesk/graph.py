from typing import Literal

from langchain_core.runnables import ConfigurableField, RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

from .prompts import CLASSIFY, FALLBACK_APOLOGY, INVOICE_STEPS, Intent, Lang, system_prompt, tenant

model = ChatOpenAI(model="gpt-4o-mini", temperature=0.1).configurable_fields(
    model_name=ConfigurableField(id="model_name", name="Model", description="Which model answers billing questions"),
).configurable_alternatives(
    ConfigurableField(id="tier"),
    default_key="standard",
    premium=ChatOpenAI(model="gpt-4.1"),
)


class Desk(MessagesState):
    intent: str


def _settings(config: RunnableConfig) -> tuple[str, Lang]:
    c = config.get("configurable", {})
    return c.get("tenant", "acme"), Lang(c.get("lang", "en"))


def classify(state: Desk) -> dict:
    out = ChatOpenAI(model="gpt-4.1-nano").invoke([("system", CLASSIFY), state["messages"][-1]])
    label = out.text.strip()
    return {"intent": label if label in {i.value for i in Intent} else Intent.OTHER.value}


def refund(state: Desk, config: RunnableConfig) -> dict:
    name, lang = _settings(config)
    system = system_prompt(name, lang, tenant(name)["policy"]["refunds"])
    return {"messages": [model.invoke([("system", system), *state["messages"]], config)]}


def invoice(state: Desk, config: RunnableConfig) -> dict:
    name, lang = _settings(config)
    system = system_prompt(name, lang, INVOICE_STEPS.get(lang, INVOICE_STEPS[Lang.EN]))
    return {"messages": [model.invoke([("system", system), *state["messages"]], config)]}


def other(state: Desk, config: RunnableConfig) -> dict:
    name, lang = _settings(config)
    if config.get("configurable", {}).get("closed"):
        return {"messages": [("ai", FALLBACK_APOLOGY)]}
    override = config.get("configurable", {}).get("system_override")
    scope = f"If the question is not about {tenant(name)['display_name']}, decline."
    system = override or system_prompt(name, lang, scope)
    return {"messages": [model.invoke([("system", system), *state["messages"]], config)]}


def route(state: Desk) -> Literal["refund", "invoice", "other"]:
    return Intent(state["intent"]).value


builder = StateGraph(Desk)
for fn in (classify, refund, invoice, other):
    builder.add_node(fn)
builder.add_edge(START, "classify")
builder.add_conditional_edges("classify", route)
for intent in Intent:
    builder.add_edge(intent.value, END)

graph = builder.compile()
