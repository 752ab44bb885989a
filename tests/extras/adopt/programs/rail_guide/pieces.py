import io
import textwrap
from string import Template

from langchain.chat_models import init_chat_model
from langgraph.graph import MessagesState, StateGraph, START, END

RULES = [
    "Never invent a price.",
    "Name the train by its number.",
    "Times are local times.",
]
LIMITS = ("two sentences", "forty words")
PERSONA = {"name": "Rail Guide", "mood": "patient"}
DEBUG_BANNER = "=== debugging the guide ==="

intro = Template("I am $name, and I am $mood.\n")


def numbered(items, start=1):
    lines = []
    for i, item in enumerate(items, start):
        print("rule", i, "is loaded")
        lines.append(f"{i}. {item}")
    return "\n".join(lines)


def build_prompt(state):
    buf = io.StringIO()
    buf.write(intro.substitute(PERSONA))
    buf.write("Follow these rules:\n")
    buf.write(numbered(RULES))
    print(DEBUG_BANNER, file=buf if False else None)
    prompt = buf.getvalue()
    for limit in LIMITS:
        prompt += "\nLimit: " + limit
    prompt = prompt + textwrap.dedent(
        """
        Today is {day}.
        """
    ).format(day=state.get("day", "Monday"))
    return prompt.strip()


SECTIONS = []
SECTIONS.append("# Task")
SECTIONS += ["Check the answer of a railway guide.", "", "# Output"]
SECTIONS.extend(f"- field `{name}`" for name in ("ok", "why"))
SECTIONS.insert(0, "<!-- check -->")
CHECK = "\n".join(SECTIONS)


def guide(state: MessagesState):
    llm = init_chat_model("openai:gpt-4o-mini")
    return {"messages": llm.invoke([{"role": "system", "content": build_prompt(state)}] + state["messages"])}


def check(state: MessagesState):
    llm = init_chat_model(model="gpt-4o", model_provider="openai")
    msgs = [{"role": "system", "content": CHECK}]
    for m in state["messages"]:
        role = "user" if m.type == "human" else "assistant"
        msgs.append({"role": role, "content": m.content})
    out = llm.invoke(msgs)
    print(f"checked: {out.content}")
    return {"messages": [out]}


wf = StateGraph(MessagesState)
wf.add_node("guide", guide).add_node("check", check)
wf.add_edge(START, "guide").add_edge("guide", "check").add_edge("check", END)
graph = wf.compile()
