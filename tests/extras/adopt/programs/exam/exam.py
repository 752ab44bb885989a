import asyncio
from string import Template

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import RetryPolicy

model = ChatOpenAI(model="gpt-4o-mini")
strict = ChatOpenAI(model="gpt-4o", temperature=0)

GRADE = Template(
    """Grade the answer of a student from 0 to 10.

Question: $question
Answer: ${answer}
A full mark costs $$0. Reply with the number only."""
)
HINT = "The student got %d points for %r. Give one hint that does not reveal the answer."
SOLVE = (
    "Solve this exam question step by step."
    " Show your work.\n"
    "Question: {question}\n"
)


class GradeError(ValueError):
    """The grade was not a number."""


@task(retry_policy=RetryPolicy(max_attempts=2, retry_on=GradeError))
async def grade(question: str, answer: str) -> int:
    reply = await strict.ainvoke(GRADE.substitute(question=question, answer=answer))
    if not reply.text.strip().isdigit():
        raise GradeError(f"not a number: {reply.text}")
    return int(reply.text)


@task
def solve(question: str, hint: str | None = None) -> str:
    prompt = SOLVE.format(question=question)
    if hint:
        prompt = prompt + "Hint of your teacher: " + hint
    else:
        prompt = f"{prompt}There is no hint yet."
    return model.invoke(prompt).text


@task(name="hinter")
def give_hint(points: int, answer: str) -> str:
    return model.invoke(HINT % (points, answer[:200])).text


@entrypoint(checkpointer=InMemorySaver())
async def exam(question: str) -> str:
    hint, answer = None, ""
    for _ in range(2):
        answer = await solve(question, hint)
        points, _ = await asyncio.gather(grade(question, answer), asyncio.sleep(0))
        if points >= 8:
            break
        hint = await give_hint(points, answer)
    return answer
