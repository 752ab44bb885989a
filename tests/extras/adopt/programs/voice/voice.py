import json
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage, trim_messages
from langchain_core.prompts import ChatPromptTemplate, HumanMessagePromptTemplate, SystemMessagePromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

DATA = json.loads((Path(__file__).with_name("data") / "personas.json").read_text("utf8"))
PERSONAS: dict[str, dict[str, str]] = DATA["personas"]

weather_schema: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "description": "City and country"}},
            "required": ["place"],
        },
    },
}


@tool(parse_docstring=True)
def play_song(title: str, loud: bool = False) -> str:
    """Play a song on the speaker.

    Args:
        title: Title of the song as people know it.
        loud: Whether to turn the volume up.
    """
    return "Playing."


TOOLS = {t.name: t for t in (play_song,)}


class State(MessagesState):
    persona: str
    bye: bool


model = ChatOpenAI(model="gpt-4o-mini").bind_tools([weather_schema, *TOOLS.values()])
persona_part = SystemMessagePromptTemplate.from_template("{persona_text} Your name is {persona_name}.")
house_part = SystemMessagePromptTemplate.from_template("You are a voice assistant in a flat.")
base = ChatPromptTemplate.from_messages([house_part, persona_part]) + ChatPromptTemplate.from_messages(
    [("placeholder", "{messages}")]
)


def speak(state: State):
    key = state.get("persona") or DATA["default"]
    persona = PERSONAS[key]
    trimmed = trim_messages(state["messages"], max_tokens=20, token_counter=len, strategy="last")
    value = base.invoke({"persona_text": persona["text"], "persona_name": persona["name"], "messages": trimmed})
    return {"messages": [model.invoke(value)]}


def run_tools(state: State):
    out = []
    for call in state["messages"][-1].tool_calls:
        if (known := TOOLS.get(call["name"])) is None:
            out.append(ToolMessage(f"There is no tool called {call['name']}.", tool_call_id=call["id"]))
        else:
            out.append(ToolMessage(known.invoke(call["args"]), tool_call_id=call["id"]))
    return {"messages": out}


def goodbye(state: State):
    ask = HumanMessagePromptTemplate.from_template(DATA["closing"]).format()
    return {"messages": [ChatOpenAI(model="gpt-4o-mini").invoke([*state["messages"], ask])]}


def after(state: State) -> str:
    if getattr(state["messages"][-1], "tool_calls", None):
        return "run_tools"
    return "goodbye" if state.get("bye") else END


graph = StateGraph(State)
graph.add_node("speak", speak)
graph.add_node("run_tools", run_tools)
graph.add_node("goodbye", goodbye)
graph.add_edge(START, "speak")
graph.add_conditional_edges("speak", after, {"run_tools": "run_tools", "goodbye": "goodbye", END: END})
graph.add_edge("run_tools", "speak")
graph.add_edge("goodbye", END)
graph = graph.compile()
