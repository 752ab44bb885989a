from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, MessagesState, StateGraph

from planner.loader import AgentSpec, few_shots, get_prompt


class Week(MessagesState):
    who: str


def route(state: Week) -> dict:
    llm = init_chat_model("gpt-4o-mini")
    said = llm.invoke([("system", get_prompt("router.system")), *state["messages"]]).content
    return {"who": "children" if "children" in said.lower() else "adults"}


def plan(state: Week) -> dict:
    spec = AgentSpec.load("planner")
    llm = init_chat_model(spec.model)
    shots = []
    for shot in few_shots():
        shots += [("human", shot["q"]), ("ai", shot["a"])]
    system = f"{spec.system.format(days='Monday to Friday')}\n{spec.style}"
    return {"messages": [llm.invoke([("system", system), *shots, *state["messages"]])]}


def play(state: Week) -> dict:
    return {
        "messages": [
            init_chat_model("gpt-4o-mini").invoke("Plan games for children. " + str(state["messages"][-1].content))
        ]
    }


wf = StateGraph(Week)
wf.add_node("route", route)
wf.add_node("plan", plan)
wf.add_node("play", play)
wf.add_edge(START, "route")
wf.add_conditional_edges("route", lambda s: s["who"], {"adults": "plan", "children": "play"})
wf.add_edge("plan", END)
wf.add_edge("play", END)
graph = wf.compile()
