from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from vers import prompts


class Lesson(TypedDict):
    topic: str
    plan: str
    grade: str


class Teacher:
    llm = ChatOpenAI(model="gpt-4o-mini")

    @staticmethod
    def plan(state: Lesson) -> dict:
        return {"plan": Teacher.llm.invoke(prompts.PLAN.format(topic=state["topic"]) + prompts.TONE).content}

    @classmethod
    def grade(cls, state: Lesson) -> dict:
        messages = [("system", prompts.GRADE)]
        if prompts.FOOTER:
            messages.append(("system", prompts.FOOTER))
        messages += [("human", state["plan"])]
        return {"grade": cls.llm.invoke(messages).content}


builder = StateGraph(Lesson)
builder.add_node("plan", Teacher.plan)
builder.add_node("grade", Teacher.grade)
builder.add_edge(START, "plan")
builder.add_edge("plan", "grade")
builder.add_edge("grade", END)
graph = builder.compile()
