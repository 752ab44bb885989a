"""Graders of one's own for tests: each reads the reference, and none may let it out."""

from selfwire.core.task import Feedback, Task
from selfwire.models.providers import make_chat_model


async def judged(task: Task, answer: str) -> Feedback:
    reference = str(task.reference)
    await make_chat_model("offline").ainvoke(f"Reference: {reference}\nAnswer: {answer}\nIs the answer right?")
    if reference.startswith("broken"):
        raise RuntimeError(f"cannot compare with {reference}")
    return Feedback(score=0.5, solved=False, text="Half of it is right.", details={"parts": 2, "style": "terse"})


def judged_at_once(task: Task, answer: str) -> float:
    make_chat_model("offline").invoke(f"Reference: {task.reference}\nAnswer: {answer}\nIs the answer right?")
    return 0.5
