"""What models are asked for: objects with exactly the declared fields."""

from pydantic import BaseModel, ConfigDict


class ReplySchema(BaseModel):
    """A reply with exactly these fields.

    The title of its JSON schema says what kind of reply it is: the name of the class, unless the class declares
    another one, as in `class Advice(ReplySchema, title="GlobalGradient")`. Models read it as the name of the reply,
    and the offline model finds the critic of that kind by it. A title has letters, digits, `_` and `-` only.
    """

    model_config = ConfigDict(extra="forbid")
