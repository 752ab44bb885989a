from operator import itemgetter

from langchain.chat_models import init_chat_model
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from pydantic import BaseModel, Field

from .settings import MODEL, TONES


class Issues(BaseModel):
    """The legal issues that a case raises."""

    issues: list[str] = Field(description="Each issue as a question of law.")
    jurisdiction: str = Field(default="unknown", description="Two-letter code of the court's country.")


def get_model(temperature: float = 0.0):
    return init_chat_model(MODEL, temperature=temperature)


issue_prompt = ChatPromptTemplate.from_messages(
    [
        ("system", "You are a clerk of the {court} court. {tone}"),
        MessagesPlaceholder("history", optional=True),
        ("human", "Facts of the case:\n{facts}\n\nName the issues."),
    ]
).partial(tone=TONES["formal"])

draft_prompt = ChatPromptTemplate(
    [
        ("system", "You draft briefs in the style of {court}. Never cite a case that you do not know."),
        ("human", "Issues:\n{issues}\n\nDraft the brief."),
    ]
)


def number(issues: list[str]) -> str:
    return "\n".join(f"{i}. {issue}" for i, issue in enumerate(issues, start=1))


def make_issue_chain():
    return issue_prompt | get_model().with_structured_output(Issues)


def make_draft_chain():
    return (
        RunnablePassthrough.assign(issues=itemgetter("issues") | RunnableLambda(number))
        | draft_prompt
        | get_model(0.3)
        | StrOutputParser()
    )
