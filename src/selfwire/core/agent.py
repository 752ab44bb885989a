"""An agent: a role with a prompt, tools and a memory."""

from operator import not_

from pydantic import Field

from selfwire.core.values import FrozenModel, Id, WholeText

MEMORY_NOTES = 8
"""Most notes of an agent; the oldest go first."""
COMPUTING_TOOLS = frozenset({"calculator", "convert_units", "algebra", "python"})
"""Ready tools that compute with what they are given and look nothing up."""


class Agent(FrozenModel):
    """A role with a prompt and tools.

    Args:
        role: its purpose in one line; routers and evolvers read it.
        prompt: its instructions, whole; they stand below the task in each of its requests. Evolvers rewrite them.
        tools: names of tools in the run's toolbox that it may call.
        memory: notes below its prompt, oldest first.
        kind: one of the kinds in selfwire.nodes, such as worker or aggregator.
        temperature: sampling temperature in [0, 2]; None leaves it to the method.
        model: that it asks, by a name that the run is given for one (`--models`); "" for the run's own.
    """

    id: Id
    role: WholeText = ""
    prompt: WholeText
    tools: tuple[Id, ...] = ()
    memory: tuple[WholeText, ...] = Field(default=(), max_length=MEMORY_NOTES)
    kind: str = "worker"
    temperature: float | None = Field(default=None, ge=0, le=2)
    model: str = Field(default="", max_length=200, pattern=r"^[!-~]*$", exclude_if=not_)  # as in teams without models
