import os
from functools import lru_cache, partial, reduce
from gettext import gettext as _

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from pydantic_settings import BaseSettings, SettingsConfigDict

STRINGS = {
    "de": {"system": "Du beantwortest Fragen zu Fahrrädern.", "short": "Antworte kurz."},
    "en": {"system": "You answer questions about bicycles.", "short": "Answer briefly."},
}
STRINGS["en-GB"] = {**STRINGS["en"], "short": "Answer briefly, if you please."}


class Cfg(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="BIKE_")
    lang: str = "de"
    model: str = "gpt-4o"
    extra_prompt: str = "Name the tool that is needed."


cfg = Cfg()


def t(key: str, lang: str | None = None) -> str:
    table = STRINGS.get(lang or cfg.lang) or STRINGS["en"]
    return table[key]


@lru_cache
def llm(name: str = cfg.model):
    return ChatOpenAI(model=name)


class Q(BaseModel):
    text: str
    kind: str = ""
    answer: str = ""


def style(kind: str) -> str:
    match kind:
        case "repair":
            return _("Describe every step of the repair.")
        case "buy" | "rent":
            return _("Compare three models.")
        case other:
            return f"The question is about {other}."


def kind(q: Q):
    return {
        "kind": llm("gpt-4o-mini").invoke("Is this about repair, buy or rent? One word.\n" + q.text).content.strip()
    }


def answer(q: Q, short: bool):
    parts = [t("system"), style(q.kind), cfg.extra_prompt, t("short") if short else None]
    system = reduce(lambda a, b: a + " " + b, filter(None, parts))
    return {"answer": llm().invoke([("system", system), ("human", q.text)]).content}


g = StateGraph(Q)
g.add_node("kind", kind)
g.add_node("answer", partial(answer, short=os.getenv("SHORT") is not None))
g.add_edge(START, "kind")
g.add_edge("kind", "answer")
g.add_edge("answer", END)
bikes = g.compile()
