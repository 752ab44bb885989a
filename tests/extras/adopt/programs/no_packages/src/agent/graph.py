from agent.nodes import answer, translate
from agent.state import State
from langgraph.graph import StateGraph

graph = (
    StateGraph(State)
    .add_node("answer", answer)
    .add_node("translate", translate)
    .add_edge("__start__", "answer")
    .add_edge("answer", "translate")
    .compile(name="Agent")
)
