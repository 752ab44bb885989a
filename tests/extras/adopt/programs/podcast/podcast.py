from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy, interrupt
from pydantic import BaseModel, Field

model = ChatOpenAI(model="gpt-4o-mini")


class Topics(BaseModel):
    """Topics of an episode."""

    topics: list[str] = Field(description="Three short topics, most interesting first.")


parser = JsonOutputParser(pydantic_object=Topics)

find_topics = (
    PromptTemplate(
        template="Suggest topics for a podcast about {subject}.\n{format_instructions}",
        input_variables=["subject"],
        partial_variables={"format_instructions": parser.get_format_instructions()},
    )
    | model.bind(response_format={"type": "json_object"})
    | parser
)

script_prompt = ChatPromptTemplate.from_template(
    """Write the script of a two minute segment.

Topic: {topic}
Speakers: Ann (curious) and Ben (an expert)."""
)


@task(retry_policy=RetryPolicy(max_attempts=2))
def propose(subject: str) -> list[str]:
    return find_topics.invoke({"subject": subject})["topics"]


@task
async def write_segment(topic: str) -> str:
    chain = script_prompt | model | StrOutputParser()
    return await chain.ainvoke({"topic": topic})


@task
def polish(segments: list[str], note: str | None) -> str:
    get_stream_writer()({"stage": "polishing the segments"})
    request = "Join these segments into one episode. Add an opening and a closing.\n\n" + "\n---\n".join(segments)
    if note:
        request += f"\n\nThe editor says: {note}"
    return model.invoke(request).text


@entrypoint(checkpointer=InMemorySaver())
async def episode(inputs: dict) -> dict:
    topics = await propose(inputs["subject"])
    segments = [await write_segment(topic) for topic in topics[:2]]
    note = None
    if inputs.get("review"):
        note = interrupt({"question": "Is this all right?", "segments": segments})
    return {"episode": await polish(segments, note)}
