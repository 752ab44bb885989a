import functools
import os

from agent.texts import *  # noqa: F403
from langchain.chat_models import init_chat_model


@functools.lru_cache
def get_model(name: str = os.getenv("CHAT_MODEL", "openai:gpt-4o")):
    return init_chat_model(name)


def ask(prompt: str, system: str = "You are helpful.") -> str:
    if not prompt:
        raise ValueError(ERRORS["empty"])  # noqa: F405
    return get_model().invoke([("system", system), ("user", prompt)]).content


def answer(state):
    prompt = "Answer this question.\n"
    prompt += RULES  # noqa: F405
    if len(state["question"]) > 100:
        prompt += "The question is long, so read it twice.\n"
    prompt += f"\nQuestion: {state['question']}"
    return {"answer": ask(prompt)}


def translate(state):
    return {"answer": ask(state["answer"], system=BY_LANGUAGE[state["language"]])}  # noqa: F405
