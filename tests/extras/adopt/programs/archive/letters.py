from pathlib import Path
from typing import TypedDict

import yaml
from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph
from pydantic import BaseModel, TypeAdapter


class Prompt(BaseModel):
    system: str
    user: str

    def fill(self, **values: str) -> list[BaseMessage]:
        return convert_to_messages([("system", self.system), HumanMessage(self.user.format(**values))])


RAW = yaml.safe_load(Path(__file__).parent.joinpath("prompts.yaml").read_text())
PROMPTS = TypeAdapter(dict[str, Prompt]).validate_python(RAW)
EXTRA = Prompt.model_validate({"system": "You translate old spelling.", "user": "Text: {letter}"})


class Letter(TypedDict, total=False):
    letter: str
    modern: str
    summary: str
    year: str


llm = ChatOpenAI(model="gpt-4o-mini")


def modernise(state: Letter):
    return {"modern": llm.invoke(EXTRA.fill(letter=state["letter"])).text}


def summarise(state: Letter):
    return {"summary": llm.invoke(PROMPTS["summary"].fill(letter=state["modern"])).text}


def date(state: Letter):
    return {"year": llm.invoke(PROMPTS["date"].fill(summary=state["summary"])).text}


builder = StateGraph(Letter).add_sequence([modernise, summarise, ("dating", date)])
builder.set_entry_point("modernise")
archive = builder.compile()
