from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from prompting import PromptBuilder, xml

UNITS = "Use grams and litres."
ALLERGENS = """
Name every allergen in the dish:
gluten, nuts, milk, eggs.
"""


class Kitchen(TypedDict):
    wish: str
    recipe: str
    answer: str


chef_prompt = (
    PromptBuilder("You are a chef who invents recipes.")
    .section("Units", UNITS)
    .section("Style", "Number the steps.")
    .build()
)


class Cook:
    def __init__(self, llm):
        self._llm = llm

    def cook(self, state: Kitchen) -> dict:
        reply = self._llm.invoke([("system", chef_prompt), ("human", xml("wish", state["wish"]))])
        return {"recipe": reply.text}

    def check(self, state: Kitchen) -> dict:
        builder = PromptBuilder("You check recipes for allergens.").end("Answer with the corrected recipe only.")
        builder.section("Allergens", xml("allergens", ALLERGENS))
        messages = [("system", builder.build())]
        messages += [("human", "The recipe: " + state["recipe"])]
        return {"answer": self._llm.invoke(messages).text}


def create_graph():
    cook = Cook(ChatOpenAI(model="gpt-4o", temperature=0.8))
    graph = StateGraph(Kitchen)
    graph.add_node("cook", cook.cook)
    graph.add_node("check", cook.check)
    graph.add_edge(START, "cook")
    graph.add_edge("cook", "check")
    graph.add_edge("check", END)
    return graph.compile()
