from ..llm import say
from ..prompts import PROMPTS


def run(state):
    said = say(PROMPTS["check"].replace("{{facts}}", state["facts"]), state["body"])
    return {"ok": said.startswith("OK"), "tries": state.get("tries", 0) + 1, "retry": True}
