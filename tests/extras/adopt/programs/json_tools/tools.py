from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

CALENDAR = {
    "type": "function",
    "function": {
        "name": "find_slot",
        "description": "Find a free slot in the calendar.",
        "parameters": {
            "type": "object",
            "properties": {"day": {"type": "string", "description": "Day as 2026-11-27."}},
        },
    },
}
SCORE = {"title": "Score", "description": "A score of the reply.", "type": "object", "properties": {}}
llm = ChatOpenAI(model="gpt-4o")
with_tools = llm.bind_tools([CALENDAR])


def assistant(state: MessagesState):
    return {"messages": [with_tools.invoke(state["messages"])]}


def tools(state: MessagesState):
    call = state["messages"][-1].tool_calls[0]
    if call["name"] != "find_slot":
        content = f"Error: there is no tool {call['name']}."
    else:
        content = "Monday at nine."
    return {"messages": [{"role": "tool", "content": content, "tool_call_id": call["id"]}]}


def score(state: MessagesState):
    scorer = llm.with_structured_output(SCORE)
    return {"messages": [("assistant", str(scorer.invoke("Score the reply.")))]}


builder = StateGraph(MessagesState)
builder.add_node("assistant", assistant)
builder.add_node("tools", tools)
builder.add_node("score", score)
builder.add_edge(START, "assistant")
builder.add_conditional_edges("assistant", tools_condition)
builder.add_edge("tools", "score")
graph = builder
