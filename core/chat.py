"""Messages to a model and its replies, as plain values."""

from typing import Literal, Self

from pydantic import Field

from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel


class ToolSpec(FrozenModel):
    """A tool as a model sees it: name, purpose and the JSON schema of its input object."""

    name: str
    description: str
    parameters: FrozenJson


class ToolCall(FrozenModel):
    """A model's request to call a tool."""

    id: str
    name: str
    arguments: FrozenJson = Field(default_factory=FrozenMap)


class ChatMessage(FrozenModel):
    """One message of a conversation with a model."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @classmethod
    def system(cls, content: str) -> Self:
        """A system message."""
        return cls(role="system", content=content)

    @classmethod
    def user(cls, content: str) -> Self:
        """A user message."""
        return cls(role="user", content=content)

    @classmethod
    def tool(cls, call: ToolCall, result: str) -> Self:
        """The result of a tool call."""
        return cls(role="tool", content=result, tool_call_id=call.id)


class Reply(FrozenModel):
    """A model's reply.

    Args:
        content: the text; may be "" beside tool calls.
        model: the provider's name of the model that answered.
        finish: why the model stopped, in the provider's words.
        metadata: further data of the provider (the offline model lists its active skills).
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    finish: str = ""
    metadata: FrozenJson = Field(default_factory=FrozenMap)

    @property
    def message(self) -> ChatMessage:
        """The reply as the next message of the conversation."""
        return ChatMessage(role="assistant", content=self.content, tool_calls=self.tool_calls)
