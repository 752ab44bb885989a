from typing import Annotated, Any

from langchain.chat_models import init_chat_model
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel, Field


class Configuration(BaseModel):
    """Settings of the agent, as the studio shows them."""

    system_prompt: str = Field(
        default="You are a translator. Keep names as they are.",
        description="The prompt of the node translate.",
        json_schema_extra={"langgraph_nodes": ["translate"], "langgraph_type": "prompt"},
    )
    review_prompt: Annotated[str, {"langgraph_type": "prompt"}] = "Correct the translation. Answer only with it."
    model: str = Field(default="openai/gpt-4.1-mini", json_schema_extra={"langgraph_nodes": ["translate"]})
    docs_url: str = "https://example.com/docs/of/the/translator"

    @classmethod
    def from_runnable_config(cls, config: RunnableConfig | None = None) -> "Configuration":
        configurable: dict[str, Any] = (config or {}).get("configurable", {})
        return cls(**{key: value for key, value in configurable.items() if key in cls.model_fields})


def translate(state: MessagesState, config: RunnableConfig):
    configuration = Configuration.from_runnable_config(config)
    llm = init_chat_model(configuration.model)
    reply = llm.invoke([{"role": "system", "content": configuration.system_prompt}, *state["messages"]])
    return {"messages": [reply]}


def review(state: MessagesState, config: RunnableConfig):
    configurable = Configuration.from_runnable_config(config)
    language = config["configurable"].get("language", "British English")
    llm = init_chat_model(configurable.model)
    prompt = f"{configurable.review_prompt} Write {language}."
    return {"messages": [llm.invoke([("system", prompt), *state["messages"]])]}


workflow = StateGraph(MessagesState, context_schema=Configuration)
workflow.add_node("translate", translate)
workflow.add_node("review", review)
workflow.add_edge(START, "translate")
workflow.add_edge("translate", "review")
workflow.add_edge("review", END)
graph = workflow.compile()
