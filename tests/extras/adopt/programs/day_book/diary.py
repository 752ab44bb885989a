import uuid

from langchain.chat_models import init_chat_model
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import MemorySaver
from langgraph.config import get_config, get_store
from langgraph.func import entrypoint, task
from langgraph.store.memory import InMemoryStore
from langgraph.types import RetryPolicy, interrupt

model = init_chat_model("gpt-4o-mini", model_provider="openai")
STYLES = {
    "short": "Write at most two sentences.",
    "rich": "Write a vivid paragraph with smells and sounds.",
}
store = InMemoryStore()
store.put(("house",), "rules", {"text": "Never name other people by their full name."})


@task(retry_policy=RetryPolicy(max_attempts=2))
def outline(day: str) -> str:
    return model.invoke(f"List the three moments of this day that matter most:\n{day}").text


@task
async def write(points: str, style: str) -> str:
    rules = get_store().get(("house",), "rules").value["text"]
    reply = await model.ainvoke([
        {"role": "system", "content": f"You keep a diary for somebody. {style} {rules}"},
        {"role": "user", "content": points},
    ])
    return reply.text


@task
def title(entry: str, config: RunnableConfig) -> str:
    language = config["configurable"].get("language", "English")
    return model.invoke([("system", "Give the entry a title in " + language + "."), ("human", entry)]).text


@entrypoint(checkpointer=MemorySaver(), store=store)
async def diary(day: str, *, previous: str | None = None) -> entrypoint.final[str, str]:
    style = STYLES[get_config()["configurable"].get("style", "short")]
    points = await outline(day)
    if previous:
        points += f"\nThe entry of the day before was: {previous}"
    entry = await write(points, style)
    heading = await title(entry)
    return entrypoint.final(value=f"{heading}\n{entry}", save=entry)
