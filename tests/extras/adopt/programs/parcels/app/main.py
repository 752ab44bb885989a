from langgraph.graph import END, START, StateGraph

from app.agents import nodes
from app.agents.state import Case

NODES = {name: getattr(nodes, name) for name in ("planner", "worker", "judge")}


def next_step(case: Case) -> str:
    return "worker" if case["steps"] else "judge"


def after_judge(case: Case):
    if case["passed"]:
        return END
    return "planner"


def build_graph() -> StateGraph:
    graph = StateGraph(Case)
    for name, fn in NODES.items():
        graph.add_node(name, fn)
    graph.add_edge(START, "planner")
    for name in ("planner", "worker"):
        graph.add_conditional_edges(name, next_step, {"worker": "worker", "judge": "judge"})
    graph.add_conditional_edges("judge", after_judge)
    return graph


app = build_graph().compile().with_config(recursion_limit=20)
