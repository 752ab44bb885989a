from functools import partial
from typing import Callable

from langchain.chat_models import init_chat_model
from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Send

from .config import Configuration

SUFFIX = "\nAnswer in the customer's language."


def make_node(kind: str) -> Callable:
    """A node that answers by the prompt of one kind."""

    def node(state, config: RunnableConfig):
        settings = Configuration.from_runnable_config(config)
        prompt = getattr(settings.prompts, kind)
        if "{bread}" in prompt:
            prompt = prompt.format(bread="rye")
        model = init_chat_model(settings.model, model_provider="openai")
        return {"messages": [model.invoke([SystemMessage(prompt + SUFFIX), *state["messages"]])]}

    node.__name__ = kind
    return node


NODES = {kind: make_node(kind) for kind in ("order", "complaint")}


def split(state, config: RunnableConfig) -> Command:
    model = init_chat_model(Configuration.from_runnable_config(config).model, model_provider="openai")
    said = model.invoke([("system", "Does the customer order, complain or both?"), *state["messages"]]).content.lower()
    goto = [Send(kind, state) for kind in NODES if kind[:5] in said] or "joke"
    return Command(goto=goto)


def tell(state, config: RunnableConfig, *, times: int):
    settings = Configuration.from_runnable_config(config)
    model = init_chat_model(settings.model, model_provider="openai")
    return {"messages": [model.invoke(f"{settings.prompts.joke} Tell it {times} times.")]}


joke = partial(tell, times=2)
