from ..llm import say
from ..prompts import get


def run(state):
    return {"headline": say(get("headline", town=state.get("town", "Withernsea")), state["facts"])}
