from __future__ import annotations

from typing import NotRequired, TypedDict

from langchain_core.prompts import ChatPromptTemplate, PromptTemplate, load_prompt
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.pregel import NodeBuilder  # noqa: F401

LLM = ChatOpenAI(model="gpt-4o-mini")


class Mail(TypedDict):
    subject: str
    people: list[dict]
    draft: NotRequired[str]
    json: NotRequired[str]
    final: NotRequired[str]


draft_prompt = ChatPromptTemplate(
    [
        ("system", "You write letters for a club.\n{{#people}}- {{name}} ({{role}})\n{{/people}}"),
        ("human", "Subject: {{subject}} {{{raw}}}"),
        ("placeholder", "{{history}}"),
    ],
    template_format="mustache",
)
extract_prompt = ChatPromptTemplate.from_messages(
    [("system", 'Return JSON like {"subject": "...", "to": ["..."]} for the letter.'), ("human", "{{ draft|trim }}")],
    template_format="jinja2",
)
polish_prompt = PromptTemplate(
    template="""Polish this letter. {% if strict %}Keep every sentence.{% endif %}
{{ draft }}""",
    input_variables=["draft", "strict"],
    template_format="jinja2",
)
braces = """Check that the JSON {{"subject": ...}} is valid:

{body}"""


def draft(state: Mail) -> dict:
    value = draft_prompt.invoke({"people": state["people"], "subject": state["subject"], "raw": "", "history": []})
    return {"draft": LLM.invoke(value).content}


def extract(state: Mail) -> dict:
    chain = extract_prompt.pipe(LLM)
    body = chain.invoke({"draft": state["draft"]}).content
    checked = LLM.invoke(braces.format(body=body))
    return {"json": checked.content}


def polish(state: Mail) -> dict:
    text = polish_prompt.format(draft=state["draft"], strict=True)
    return {"final": LLM.invoke(text).content}


sg = StateGraph(Mail).add_node(draft).add_node(extract).add_node(polish)
sg = sg.add_edge(START, "draft").add_edge("draft", "extract").add_edge("draft", "polish")
letters = sg.compile()
