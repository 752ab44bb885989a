"""Asks the critics of the stand-in what a method's prompt would ask them."""

from random import Random
from typing import TypeVar

from pydantic import BaseModel

from selfwire.runtime.offline import critics
from selfwire.runtime.offline.worker import PlainMessage

Reply = TypeVar("Reply", bound=BaseModel)


def replied(schema: type[Reply], *, seed: int = 0, error_rate: float = 0.0, **sections: str) -> Reply:
    text = "\n".join(f"<{name}>\n{value}\n</{name}>" for name, value in sections.items())
    asked = schema.model_json_schema()
    found = critics.reply(
        asked["title"],
        asked,
        [PlainMessage("user", text)],
        lambda purpose: Random(f"{seed} {purpose}"),
        error_rate,
    )
    return schema.model_validate(found)
