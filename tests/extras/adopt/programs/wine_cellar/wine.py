"""Wine cellar, asyncio style."""

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import cache, partial, reduce

from langchain_core.messages import HumanMessage, RemoveMessage, SystemMessage, trim_messages
from langchain_openai import ChatOpenAI
from langgraph.graph import END, MessagesState, StateGraph
from langgraph.config import get_stream_writer

NOTES = ["Name the grape.", "Name the soil.", "Name the year."]
STYLE = {"dry": "Speak like a dry Riesling.", "sweet": "Speak like a sweet Tokaj."}


class Cellar(MessagesState):
    style: str
    notes: dict[str, str]


@cache
def model(name: str = "gpt-4o-mini", /, **kw):
    return ChatOpenAI(model=name, **kw)


@asynccontextmanager
async def cellar_master(style: str):
    yield SystemMessage(STYLE.get(style) or "Speak like a cellar master.")


async def taste(state: Cellar):
    writer = get_stream_writer()
    async with cellar_master(state.get("style", "dry")) as master:
        base = [master, state["messages"][-1]]
        replies = await model().abatch([[*base, HumanMessage(n)] for n in NOTES])
    notes = defaultdict(str)
    for n, reply in zip(NOTES, replies, strict=True):
        notes[n] += reply.text
        writer({"note": n})
    return {"notes": dict(notes)}


async def argue(state: Cellar):
    async def side(position: str, question: str) -> str:
        pieces = []
        async for chunk in model("gpt-4o", temperature=1).astream([("system", position), ("human", question)]):
            pieces.append(chunk.text)
        return "".join(pieces)

    summary = reduce(lambda a, b: f"{a}; {b[0]} {b[1]}", state["notes"].items(), "The notes so far")
    ask = partial(side, question=summary)
    pro, con = await asyncio.gather(ask("Argue that the bottle should be opened now."), ask("Argue for ten more years."))
    verdict = await asyncio.to_thread(model().invoke, f"Decide between two views.\nPRO {pro}\nCON {con}")
    return {"messages": [verdict]}


def tidy(state: Cellar):
    kept = trim_messages(state["messages"], max_tokens=2, token_counter=len, strategy="last")
    gone = [RemoveMessage(id=m.id) for m in state["messages"] if m not in kept]
    if len(gone) > 2:
        brief = model().invoke(kept + [HumanMessage(content="Summarise our talk about wine in one line.")])
        return {"messages": [*gone, brief]}
    return {"messages": gone}


def enough(state: Cellar) -> bool:
    return len(state["messages"]) > 4


w = StateGraph(Cellar)
for fn in (taste, argue, tidy):
    w.add_node(fn.__name__, fn)
w.add_edge("__start__", "taste")
w.add_edge("taste", "argue")
w.add_conditional_edges("argue", enough, {True: "tidy", False: END})
w.add_edge("tidy", END)
cellar = w.compile()
