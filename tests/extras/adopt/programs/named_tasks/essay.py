import asyncio

from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import add_messages
from langgraph.types import RetryPolicy, interrupt

llm = ChatOpenAI(model="gpt-5-mini")


@task
def outline(topic: str) -> str:
    """Make an outline."""
    return llm.invoke(f"Outline an essay about {topic}.").text


@task(retry_policy=RetryPolicy(max_attempts=2), name="section")
async def write_section(heading: str) -> str:
    messages = [
        {"role": "system", "content": "Write one paragraph per heading."},
        {"role": "user", "content": heading},
    ]
    return (await llm.ainvoke(messages)).text


@entrypoint()
async def essay(topic: str) -> str:
    plan = await outline(topic)
    parts = await asyncio.gather(*[write_section(line) for line in plan.splitlines()[:2]])
    text = "\n\n".join(parts)
    if len(text) > 5000:
        text = interrupt({"text": text, "question": "Shorten this essay by hand?"})
    return text
