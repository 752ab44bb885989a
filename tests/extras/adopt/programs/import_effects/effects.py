from pathlib import Path

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

Path("was_imported.txt").write_text("this program was imported")

llm = ChatOpenAI(model="gpt-4o")


def chat(state: MessagesState):
    return {"messages": [llm.invoke([("system", "You chat."), *state["messages"]])]}


graph = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat").add_edge("chat", END).compile()

raise SystemExit("this program was run")
