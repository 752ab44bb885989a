from langchain_anthropic import ChatAnthropic
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.graph import MessagesState, StateGraph, START, END
from .config import prompt_of, shots_of

llm = ChatAnthropic(model="claude-sonnet-4-5")


def make_chain(agent: str):
    template = ChatPromptTemplate.from_messages(
        [("system", prompt_of(agent)), *shots_of(agent), MessagesPlaceholder("messages")]
    )
    return template | llm


def make_node(agent: str, **extra):
    chain = make_chain(agent)

    def node(state: MessagesState):
        return {"messages": [chain.invoke({"messages": state["messages"], **extra})]}

    node.__name__ = agent
    return node


workflow = StateGraph(MessagesState)
workflow.add_node(make_node("greeter", language="German"))
workflow.add_node(make_node("concierge"))
workflow.add_edge(START, "greeter")
workflow.add_edge("greeter", "concierge")
workflow.add_edge("concierge", END)
app = workflow.compile()
