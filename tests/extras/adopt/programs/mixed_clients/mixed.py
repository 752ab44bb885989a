from typing import TypedDict

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph
from openai import AsyncOpenAI, OpenAI

client = OpenAI()
aclient = AsyncOpenAI()
flexible = init_chat_model("gpt-5-mini", model_provider="openai", configurable_fields=("model",))
backup = flexible.with_fallbacks([init_chat_model("openai:gpt-5-nano")])
SYSTEM = {"role": "system", "content": "You name colours."}


class State(TypedDict):
    question: str
    colour: str
    answer: str


def colour(state: State):
    done = client.chat.completions.create(
        model="gpt-5-nano", messages=[SYSTEM, {"role": "user", "content": state["question"]}]
    )
    return {"colour": done.choices[0].message.content}


async def rhyme(state: State):
    done = await aclient.chat.completions.create(
        model="gpt-5-nano",
        messages=[
            {"role": "developer", "content": "Find a rhyme."},
            {"role": "user", "content": f"Rhyme with {state['colour']}"},
        ],
    )
    return {"colour": done.choices[0].message.content}


def finish(state: State):
    reply = backup.invoke(
        [("system", "Write a couplet."), ("human", state["colour"])], config={"configurable": {"model": "gpt-5"}}
    )
    return {"answer": reply.content}


builder = StateGraph(State)
builder.add_node(colour)
builder.add_node(rhyme)
builder.add_node(finish)
builder.add_edge(START, "colour")
builder.add_edge("colour", "rhyme")
builder.add_edge("rhyme", "finish")
builder.add_edge("finish", END)
graph = builder.compile()
