import logging
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_fireworks import ChatFireworks
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

logger = logging.getLogger("reflect.loop")
prompt = ChatPromptTemplate.from_messages(
    [
        (
            "system",
            "You are an essay assistant tasked with writing excellent 5-paragraph essays."
            " Generate the best essay possible for the user's request.",
        ),
        MessagesPlaceholder(variable_name="messages"),
    ]
)
llm = ChatFireworks(model="accounts/fireworks/models/mixtral-8x7b-instruct", max_tokens=32768)
generate = prompt | llm
reflection_prompt = ChatPromptTemplate.from_messages(
    [
        ("system", "You are a teacher grading an essay submission. Generate critique and recommendations."),
        MessagesPlaceholder(variable_name="messages"),
    ]
)
reflect = reflection_prompt | llm


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]


async def generation_node(state: State) -> State:
    logger.info("generating an essay from %s messages", len(state["messages"]))
    return {"messages": [await generate.ainvoke(state["messages"])]}


async def reflection_node(state: State) -> State:
    cls_map = {"ai": HumanMessage, "human": AIMessage}
    translated = [state["messages"][0]] + [cls_map[msg.type](content=msg.content) for msg in state["messages"][1:]]
    res = await reflect.ainvoke(translated)
    return {"messages": [HumanMessage(content=res.content)]}


def should_continue(state: State):
    if len(state["messages"]) > 6:
        return END
    return "reflect"


builder = StateGraph(State)
builder.add_node("generate", generation_node)
builder.add_node("reflect", reflection_node)
builder.add_edge(START, "generate")
builder.add_conditional_edges("generate", should_continue)
builder.add_edge("reflect", "generate")
graph = builder.compile()
