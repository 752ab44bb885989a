import functools
from typing import Any, NamedTuple, TypedDict

from langchain_core.output_parsers import JsonOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

BASE = "You plan the timetable of a school."
RULES = "\n".join(("No teacher has more than six lessons a day.", "Sport is never first."))
PLAN_PROMPT = BASE + "\n\n" + RULES + "\n\nClasses: {classes}\nTeachers: {teachers}"
PLAN_PROMPT += "\nReply with a table."


class Ask(NamedTuple):
    prompt: str
    field: str


STEPS = {
    "plan": Ask(PLAN_PROMPT, "table"),
    "explain": Ask("Explain this timetable to parents:\n{table}", "letter"),
}


class School(TypedDict, total=False):
    classes: str
    teachers: str
    table: str
    letter: str
    checks: dict[str, Any]


llm = ChatOpenAI(model="gpt-4o-mini")


def ask(state: School, *, prompt: str, field: str) -> School:
    return {field: llm.invoke(prompt.format(**state)).text}


clash = PromptTemplate(
    template="Find a clash in this timetable.\n{table}\n{format_instructions}",
    input_variables=["table"],
    partial_variables={"format_instructions": "Reply in JSON with the key 'clash'."},
)
gaps = PromptTemplate.from_template("Does a class have a gap in it? {table}")
checks = RunnableParallel(
    clash=clash | llm | JsonOutputParser(),
    gaps=(gaps | llm | (lambda reply: reply.text)).with_config(run_name="gaps"),
)


def check(state: School) -> School:
    return {"checks": checks.invoke({"table": state["table"]})}


graph = StateGraph(School)
for name, step in STEPS.items():
    graph.add_node(name, functools.partial(ask, **step._asdict()))
graph.add_node("check", RunnableLambda(check))
graph.add_edge(START, "plan")
graph.add_edge("plan", "check")
graph.add_edge("check", "explain")
graph.add_edge("explain", END)
timetable = graph.compile()
