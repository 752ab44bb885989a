import asyncio
from typing import TypedDict

from langchain_core.output_parsers import StrOutputParser
from langchain_openai import ChatOpenAI
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.types import CachePolicy, RetryPolicy, interrupt

writer_model = ChatOpenAI(model="gpt-4o")
to_text = StrOutputParser()

INSPECTION = {
    "brood": "Look at the report of a beehive. Is there brood on every frame?",
    "food": "Look at the report of a beehive. Is there food for two weeks?",
    "mites": "Look at the report of a beehive. Count signs of mites.",
}


class Report(TypedDict):
    findings: dict[str, str]
    plan: str


@task(retry_policy=RetryPolicy(max_attempts=2), cache_policy=CachePolicy(ttl=60))
async def inspect_hive(aspect: str, report: str) -> str:
    """Ask about one aspect."""
    get_stream_writer()({"aspect": aspect})
    chain = writer_model | to_text
    return await chain.ainvoke([("system", INSPECTION[aspect]), ("user", report)])


@task
async def plan(findings: dict[str, str], season: str = "spring") -> str:
    listed = "\n".join(f"{name.title()}: {text}" for name, text in findings.items())
    return await (writer_model | to_text).ainvoke(
        f"Plan the work of a beekeeper for {season}.\n\n{listed}\n\nStart with what is urgent."
    )


@task
def approve(plan: str) -> str:
    answer = interrupt({"plan": plan, "question": "Shall I send this plan?"})
    return plan if answer == "yes" else "no plan"


@entrypoint(checkpointer=InMemorySaver(), cache=InMemoryCache())
async def hive(report: str, *, previous: Report | None = None) -> entrypoint.final[Report, Report]:
    texts = await asyncio.gather(*(inspect_hive(aspect, report) for aspect in INSPECTION))
    findings = dict(zip(INSPECTION, texts))
    if previous is not None:
        findings["before"] = previous["plan"]
    made = await plan(findings)
    made = await approve(made)
    result: Report = {"findings": findings, "plan": made}
    return entrypoint.final(value=result, save=result)
