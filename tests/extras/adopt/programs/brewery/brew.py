import re
import unicodedata
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


RECIPE = squeeze(
    """
    You write recipes
    for a brewery.
    """
)
STEPS = ["  Mash the malt.", "Boil the wort.  "]
NOTE = unicodedata.normalize("NFC", "Mention the bitterness in IBU.")
WARN = "Say {n} times that beer is not for children. "


class Brew(TypedDict):
    style: str
    strong: bool
    recipe: str
    label: str
    tasting: str


llm = ChatOpenAI(model="gpt-4o-mini")


def recipe(state: Brew):
    steps = "\n".join(map(str.strip, STEPS))
    body = f"{RECIPE}\n{steps}\nStyle: {state['style']!s:>10}\n{'It is strong.' if state['strong'] else 'It is light.'}"
    return {"recipe": llm.invoke(body).text}


def label(state: Brew):
    prompt = "Write a label for %(style)s beer."
    prompt %= {"style": state["style"]}
    prompt = prompt + "\n" + WARN.format(n=2) * 2
    return {"label": llm.invoke(prompt.rstrip()).text}


def tasting(state: Brew):
    if (hint := NOTE) and state["recipe"]:
        hint = hint.replace("IBU", "international units")
    messages = [("system", hint)]
    messages.append(("user", "Taste: " + state["recipe"]))
    return {"tasting": llm.invoke(messages).text}


g = StateGraph(Brew)
g.add_node("recipe_step", recipe)
g.add_node("label_step", label)
g.add_node("tasting_step", tasting)
g.add_edge(START, "recipe_step")
g.add_edge("recipe_step", "label_step")
g.add_edge("label_step", "tasting_step")
g.add_edge("tasting_step", END)
brew = g.compile()
