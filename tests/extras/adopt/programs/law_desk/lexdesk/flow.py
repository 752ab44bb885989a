from langchain_core.output_parsers import StrOutputParser
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from .lawyers import DESK, Partner
from .settings import settings
from .state import Matter

_chooser = ChatOpenAI(model=settings.default_model, temperature=0) | StrOutputParser()


def clerk(matter: Matter) -> dict:
    kinds = " or ".join(repr(cls.name) for cls in DESK)
    kind = _chooser.invoke(
        [
            ("system", f"You are the clerk of a law firm. Classify the story as {kinds}. One word."),
            ("human", matter.story),
        ]
    )
    return {"kind": kind.strip()}


def pick(matter: Matter) -> str:
    return matter.kind if matter.kind in {cls.name for cls in DESK} else Partner.name


def verdict(matter: Matter) -> bool:
    return matter.signed.startswith("RETURNED") and not matter.opinions


def intake_graph():
    builder = StateGraph(Matter)
    builder.add_node("clerk", clerk)
    for cls in (*DESK, Partner):
        builder.add_node(cls.name, cls())
    builder.add_edge(START, "clerk")
    builder.add_conditional_edges("clerk", pick, [cls.name for cls in DESK] + [Partner.name])
    for cls in DESK:
        builder.add_edge(cls.name, Partner.name)
    builder.add_conditional_edges("partner", verdict, {True: "clerk", False: END})
    return builder.compile()
