import functools
from dataclasses import dataclass, replace
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph


@dataclass(frozen=True, slots=True)
class Prompt:
    key: str
    system: str
    user: str = "{text}"

    def messages(self, **values: str) -> list[tuple[str, str]]:
        return [("system", self.system), ("user", self.user.format(**values))]

    def with_suffix(self, suffix: str) -> "Prompt":
        return replace(self, system=f"{self.system}\n{suffix}")


PROMPTS = (
    Prompt("screen", "You screen letters of applicants for a bakery.", "Letter:\n{text}\n\nYes or no?"),
    Prompt("reply", "You reply to applicants in the name of the baker."),
)


def get(key: str) -> Prompt:
    return next(prompt for prompt in PROMPTS if prompt.key == key)


class Mail(TypedDict):
    text: str
    verdict: str
    answer: str


llm = ChatOpenAI(model="gpt-4o-mini")


def node(key: str, out: str, source: str):
    prompt = get(key)

    async def run(state: Mail) -> dict:
        return {out: (await llm.ainvoke(prompt.messages(text=state[source]))).text}

    run.__name__ = key
    return run


def polish(state: Mail) -> dict:
    prompt = get("reply").with_suffix("Correct the spelling only.")
    return {"answer": llm.invoke(prompt.messages(text=state["answer"])).text}


builder = StateGraph(Mail)
builder.add_node("screen", node("screen", "verdict", "text"))
builder.add_node("reply", node("reply", "answer", "verdict"))
builder.add_node(polish)
builder.set_entry_point("screen")
builder.add_edge("screen", "reply")
builder.add_edge("reply", "polish")
builder.set_finish_point("polish")
app = builder.compile()
