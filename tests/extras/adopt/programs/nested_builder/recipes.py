import operator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict

WRITE = "You write recipes for a school kitchen. Cook for {people} children."


@dataclass(kw_only=True)
class Kitchen:
    people: int = field(default=30, metadata={"description": "How many children eat."})
    diet: Literal["any", "vegetarian", "vegan"] = "any"
    steps: Annotated[int, "most steps of a recipe"] = 8
    base_url: str = "http://127.0.0.1:8000/v1"
    taster_prompt: str = "You taste a recipe and say in one line what it lacks."


class Tasting(TypedDict):
    recipe: str
    remarks: Annotated[list[str], operator.add]


class Cooking(TypedDict):
    question: str
    recipe: str
    remarks: list[str]
    answer: str


class Cook:
    def __init__(self, name="openai:gpt-4o-mini"):
        self.llm = init_chat_model(name)
        self.tasting = self._chain(Tasting, {"salt": self.salt, "texture": self.texture})
        builder = StateGraph(Cooking, context_schema=Kitchen)
        for step in (self.write, self.taste, self.improve):
            builder.add_node(step.__name__, step)
        self._edge(builder, START, "write")
        self._edge(builder, "write", "taste")
        self._edge(builder, "taste", "improve")
        self._edge(builder, "improve", END)
        self.app = builder.compile(name="cook")

    @staticmethod
    def _edge(builder, source, target):
        builder.add_edge(source, target)

    def _chain(self, state, steps):
        inner = StateGraph(state)
        before = START
        for name, step in steps.items():
            inner.add_node(name, step)
            inner.add_edge(before, name)
            before = name
        inner.add_edge(before, END)
        return inner.compile()

    def salt(self, state: Tasting):
        said = self.llm.invoke("Is there enough salt in this recipe?\n" + state["recipe"])
        return {"remarks": [said.text]}

    def texture(self, state: Tasting):
        kitchen = get_runtime(Kitchen).context
        return {"remarks": [self.llm.invoke([("system", kitchen.taster_prompt), ("user", state["recipe"])]).text]}

    def write(self, state: Cooking):
        kitchen = get_runtime(Kitchen).context
        rules = f"The recipe is for {kitchen.diet} eaters, in at most {kitchen.steps} steps."
        messages = [("system", WRITE.format(people=kitchen.people)), ("system", rules), ("user", state["question"])]
        return {"recipe": self.llm.invoke(messages).text}

    def taste(self, state: Cooking):
        return {"remarks": self.tasting.invoke({"recipe": state["recipe"], "remarks": []})["remarks"]}

    def improve(self, state: Cooking):
        remarks = "\n".join(state["remarks"])
        return {"answer": self.llm.invoke(f"Improve the recipe.\n\n{state['recipe']}\n\nRemarks:\n{remarks}").text}


app = Cook().app
