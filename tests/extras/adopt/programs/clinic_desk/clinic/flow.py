from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, MessagesState, StateGraph

from . import texts as t
from .texts import GREETINGS, REGISTRY, Lang, Step

chat = ChatOpenAI(model="gpt-4o")


class S(MessagesState):
    lang: Lang
    complaint: str


def prompt_for(step: Step, lang: Lang) -> str:
    return f"{step.value}\n{GREETINGS[lang]}"


def intake(state: S):
    out = chat.invoke([SystemMessage(content=prompt_for(Step.INTAKE, state["lang"]))] + state["messages"])
    return {"messages": out, "complaint": out.content}


def ask(state: S):
    msgs = [SystemMessage(REGISTRY["followup"]["text"])]
    msgs.extend(state["messages"])
    msgs.append(HumanMessage(content="Complaint: " + state["complaint"]))
    return {"messages": [chat.invoke(msgs)]}


def advise(state: S):
    return {
        "messages": [
            chat.invoke([SystemMessage(Step.ADVICE.filled(complaint=state["complaint"])), *state["messages"]])
        ]
    }


def letter(state: S):
    return {
        "messages": [
            chat.invoke([("system", t.Step.LETTER), ("system", t.REGISTRY["closing"]["text"]), *state["messages"]])
        ]
    }


def more(state: S) -> bool:
    return len(state["messages"]) < 6


w = StateGraph(S)
for fn in (intake, ask, advise, letter):
    w.add_node(fn.__name__, fn)
w.set_entry_point("intake")
w.add_edge("intake", "ask")
w.add_conditional_edges("ask", more, {True: "ask", False: "advise"})
w.add_edge("advise", "letter")
w.add_edge("letter", END)
desk = w.compile()
