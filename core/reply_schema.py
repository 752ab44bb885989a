"""What models are asked for: objects with exactly the declared fields."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class ReplySchema(BaseModel):
    """A reply with exactly these fields.

    The title of its JSON schema says what kind of reply it is: the name of the class, unless the class declares
    another one, as in `class Advice(ReplySchema, title="GlobalGradient")`. Models read it as the name of the reply,
    and the offline model finds the critic of that kind by it. A title has letters, digits, `_` and `-` only.
    """

    model_config = ConfigDict(extra="forbid")

    MAX_TOKENS: ClassVar[int | None] = None
    """Most tokens of such a reply, so that no model goes on for minutes; a reply that was cut is asked for once more
    with the model's own limit. None: the model's own limit."""
