"""What models are asked for: objects with exactly the declared fields."""

from pydantic import BaseModel, ConfigDict


class ReplySchema(BaseModel):
    """A reply with exactly these fields."""

    model_config = ConfigDict(extra="forbid")
