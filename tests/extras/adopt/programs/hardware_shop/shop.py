from langchain_core.messages import SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from toolset import TOOLS

llm = ChatOpenAI(model="gpt-5-mini").bind_tools(TOOLS, parallel_tool_calls=False)
SYSTEM = SystemMessage(content="You work in a hardware shop. Use the tools before you promise anything.")


def assistant(state: MessagesState):
    return {"messages": [llm.invoke([SYSTEM] + state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("assistant", assistant)
builder.add_node("tools", ToolNode(TOOLS, handle_tool_errors="The tool failed, try another one."))
builder.add_edge(START, "assistant")
builder.add_conditional_edges("assistant", tools_condition)
builder.add_edge("tools", "assistant")
graph = builder.compile()
