#!/usr/bin/env python
# coding: utf-8

# # Support bot
# Exported with nbconvert.

# In[1]:


import os
import json
from typing import *
from langchain_openai import ChatOpenAI
from langgraph.graph import *
from langchain.tools import tool
from langchain.messages import SystemMessage, HumanMessage, AIMessage, ToolMessage

os.environ.setdefault("OPENAI_API_KEY", "sk-...")


# In[2]:


llm = ChatOpenAI(model="gpt-4o-mini", temperature=0.2)
PROMPT = """You are a bot."""


# In[3]:


PROMPT = """You are the support bot of a ferry line.
Use the table:
"""
TABLE = [("Dover", 3), ("Calais", 4)]
for port, berth in TABLE:
    PROMPT += f"- {port}: berth {berth}\n"
PROMPT += "If unsure, ask back."


# In[4]:


faq = {}
faq["luggage"] = "Two bags are free."
faq["dogs"] = "Dogs stay on deck four."
faq.update(bikes="Bikes cost five euros.", cars="Cars must book ahead.")
faq |= {"kids": "Children under four sail free."}
FAQ_TEXT = "\n".join(f"{k} => {v}" for k, v in sorted(faq.items()))


# In[5]:


@tool
def timetable(port: str) -> str:
    """Departures of a port as JSON."""
    return json.dumps({"port": port, "note": "Winter timetable, half of the boats sail."})

tools_by_name = {t.name: t for t in [timetable]}
llm_with_tools = llm.bind_tools([timetable])


# In[6]:


class State(MessagesState):
    topic: str


def classify(state: State):
    topics = "Reply with one word: " + " | ".join([*faq]) + " or other."
    res = llm.invoke([SystemMessage(content=topics), state["messages"][-1]])
    return {"topic": res.content.strip().lower()}

def chat(state: State):
    extra = faq.get(state["topic"], "No entry of the FAQ fits.")
    sys = PROMPT + "\n\n" + FAQ_TEXT + "\n\nMost relevant: " + extra
    return {"messages": [llm_with_tools.invoke([SystemMessage(content=sys)] + state["messages"])]}

def run_tools(state: State):
    result = []
    for tool_call in state["messages"][-1].tool_calls:
        observation = tools_by_name[tool_call["name"]].invoke(tool_call["args"])
        result.append(ToolMessage(content=observation, tool_call_id=tool_call["id"]))
    return {"messages": result}

def should_continue(state: State) -> Literal["run_tools", "__end__"]:
    return "run_tools" if state["messages"][-1].tool_calls else END


# In[7]:


workflow = StateGraph(State)
workflow.add_node("classify", classify)
workflow.add_node("chat", chat)
workflow.add_node("run_tools", run_tools)
workflow.add_edge(START, "classify")
workflow.add_edge("classify", "chat")
workflow.add_conditional_edges("chat", should_continue, ["run_tools", END])
workflow.add_edge("run_tools", "chat")
app = workflow.compile()


# In[8]:


try:
    from IPython.display import Image, display
    display(Image(app.get_graph().draw_mermaid_png()))
except Exception:
    pass
