from ..llm import say
from ..prompts import get


def run(state):
    return {"body": say(get("body", headline=state["headline"]), state["facts"], strict=state.get("retry", False))}
