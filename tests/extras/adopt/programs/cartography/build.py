from pathlib import Path
from typing import Any

import yaml
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

NAMES = {"START": START, "END": END}


class MapState(TypedDict, total=False):
    region: str
    landmarks: str
    map: str


def make_node(spec: dict[str, Any], llm: ChatOpenAI):
    def run(state: MapState) -> dict[str, Any]:
        user = spec["template"].format(**state)
        reply = llm.invoke([("system", spec["system"]), ("user", user)])
        return {spec["output"]: reply.text}

    return run


def load(path: str = "flow.yaml"):
    config = yaml.safe_load((Path(__file__).parent / path).read_text())
    llm = ChatOpenAI(model=config["model"])
    builder = StateGraph(MapState)
    for spec in config["nodes"]:
        builder.add_node(spec["id"], make_node(spec, llm))
    for a, b in config["edges"]:
        builder.add_edge(NAMES.get(a, a), NAMES.get(b, b))
    return builder.compile()


graph = load()
