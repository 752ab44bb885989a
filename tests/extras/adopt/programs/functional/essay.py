from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import MemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import interrupt

model = ChatOpenAI(model="gpt-4o")


@task
def compose_essay(topic: str) -> str:
    """Generate an essay about the given topic."""
    return model.invoke(
        [
            {"role": "system", "content": "You are a helpful assistant that writes essays."},
            {"role": "user", "content": f"Write an essay about {topic}."},
        ]
    ).content


@task
def shorten(essay: str) -> str:
    return model.invoke("Shorten this essay to one paragraph:\n\n" + essay).content


@entrypoint(checkpointer=MemorySaver())
def workflow(topic: str) -> dict:
    """Write an essay and ask a person for a review."""
    essay = compose_essay(topic).result()
    short = shorten(essay).result()
    is_approved = interrupt({"essay": short, "action": "Please approve/reject the essay"})
    return {"essay": short, "is_approved": is_approved}
