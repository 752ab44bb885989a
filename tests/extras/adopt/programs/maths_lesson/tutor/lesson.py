from operator import itemgetter
from typing import Annotated, Optional

from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from .templates import EXERCISE, GRADE, HINT, PRAISE


class Mark(TypedDict):
    """The mark for one answer."""

    points: Annotated[int, ..., "Points from 0 to 10"]
    mistake: Annotated[Optional[str], None, "The most important mistake, if there is one"]


class Lesson(BaseModel):
    topic: str = Field(description="Topic of the lesson")
    year: int = 7
    answer: str = ""
    exercise: str = ""
    points: int = 0
    mistakes: list[str] = Field(default_factory=list, description="Mistakes made so far")
    history: Annotated[list, add_messages] = Field(default_factory=list)
    feedback: str = ""


def chat(size: str = "small", **kw) -> ChatOpenAI:
    return ChatOpenAI(model={"small": "gpt-4o-mini", "big": "gpt-4o"}[size], **kw)


def set_exercise(lesson: Lesson) -> dict:
    prompt = EXERCISE.render(
        topic=lesson.topic, year=lesson.year, mistakes=lesson.mistakes[-3:], calculator=lesson.year > 8
    )
    return {"exercise": chat("big", temperature=0.9).invoke(prompt).text}


grade = (
    RunnableLambda(lambda lesson: lesson.model_dump(include={"exercise", "answer"}))
    | GRADE
    | chat("big").with_structured_output(Mark)
    | (lambda mark: {"points": mark["points"], "mistakes": [m for m in [mark.get("mistake")] if m]})
)

hint = (
    RunnableLambda(lambda s: {"wrong": s.answer, "year": s.year, "history": s.history})
    | RunnablePassthrough.assign(reply=HINT | chat())
    | {"history": lambda d: [d["reply"]], "feedback": itemgetter("reply") | StrOutputParser()}
)

praise = RunnableBranch(
    (lambda s: s.points == 10, (lambda s: {"thing": "a perfect answer on " + s.topic}) | PRAISE),
    (lambda s: {"thing": "an honest effort"}) | PRAISE,
) | chat() | StrOutputParser() | (lambda text: {"feedback": text})


def build_lesson(max_mistakes: int = 3):
    b = StateGraph(Lesson)
    b.add_sequence([("set_exercise", set_exercise), ("grade", grade)])
    b.add_node("hint", hint)
    b.add_node("praise", praise)
    b.set_entry_point("set_exercise")
    b.add_conditional_edges(
        "grade", lambda s: "hint" if s.points < 6 and len(s.mistakes) < max_mistakes else "praise", ["hint", "praise"]
    )
    b.set_finish_point("hint")
    b.set_finish_point("praise")
    return b.compile()


lesson_graph = build_lesson()
