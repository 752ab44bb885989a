"""State of a method's graph: JSON in LangGraph's channels, typed values for nodes and edges.

A method declares its state as a class with one annotation per channel; the class is the graph's schema. A node gets a
view of the channels that decodes a field when it is first read, and returns `state.update(...)`, which is the only
encoder. Checkpoints, streams and traces hold plain JSON.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self, get_type_hints

from langchain_core.messages import AnyMessage
from langgraph.graph import add_messages
from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.core.values import fingerprint

REQUIRED: Any = object()
"""Default of a field that must be written before it is read."""

Update = dict[str, Any]
"""What a node returns: changed channels as JSON."""


class _Field:
    """One channel; a non-data descriptor, so that a decoded value hides it in the instance."""

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        self.name, self.annotation, self.default = name, annotation, default

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Made when it is first needed, so that importing a method is quick."""
        return TypeAdapter(self.annotation)

    def __get__(self, state: "State | None", owner: type) -> Any:
        if state is None:
            return self
        value = self.decode(state.channels)
        vars(state)[self.name] = value
        return value

    def decode(self, channels: Mapping[str, Any]) -> Any:
        """The typed value; the default where nothing is written.

        Raises:
            KeyError: nothing is written, and there is no default.
        """
        found = channels.get(self.name, REQUIRED)
        if found is REQUIRED or (self.default is None and found == {}):  # 0.1.0 wrote {} for None
            if self.default is REQUIRED:
                raise KeyError(f"{self.name} is not in the state yet")
            return self.default
        return self.adapter.validate_python(found)

    def encode(self, value: Any) -> Any:
        """The value as JSON; validated first, as pydantic warns of a list where a tuple is declared."""
        return self.adapter.dump_python(self.adapter.validate_python(value), mode="json")


class Input(TypedDict, total=False):
    """What a run is given: a question, or messages whose last human one is the question."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]


class State:
    """What every method's graph keeps.

    Attributes:
        question: the user's question; the graph's input.
        answer: the graph's output; None until there is one.
        messages: of a chat client's thread; empty where only questions were asked.
        asked: id of the last human message that a run was asked.
        id, kind: the question's id, and the benchmark's name for its sort; "" for a question that is only a text.
    """

    question: str = ""
    answer: str | None = None
    messages: Annotated[list[AnyMessage], add_messages] = []  # noqa: RUF012
    asked: str = ""
    id: str = ""
    kind: str = ""
    scope: Scope
    usage: Usage = Usage()

    def __init__(self, channels: Mapping[str, Any]) -> None:
        self.channels = channels

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, annotation in get_type_hints(cls, include_extras=True).items():
            default = getattr(cls, name, REQUIRED)
            setattr(cls, name, _Field(name, annotation, default.default if isinstance(default, _Field) else default))

    def __contains__(self, name: str) -> bool:
        return bool(self.channels.get(name))

    def get_question(self) -> Question:
        """The question; one that is only a text has its fingerprint as id."""
        return Question(id=self.id or fingerprint(self.question), input=self.question, kind=self.kind)

    @classmethod
    def update(cls, **changes: Any) -> Update:
        """Changed fields as the channels keep them.

        Raises:
            AttributeError: there is no such field.
            ValueError: a value is not of the field's type.
        """
        return {name: getattr(cls, name).encode(value) for name, value in changes.items()}

    def after(self, update: Mapping[str, Any]) -> Self:
        """The state with an update laid over it."""
        return type(self)({**self.channels, **update})
