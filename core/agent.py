"""An agent: a role with a prompt, tools and a memory."""

from pydantic import Field

from selfwire.core.values import FrozenModel, Id

MEMORY_NOTES = 8
"""How many notes an agent keeps; the oldest go first."""


class Agent(FrozenModel):
    """A role with a prompt and tools.

    Args:
        role: one line on what it is for; routers and evolvers read it.
        prompt: its whole system prompt; evolvers rewrite it.
        tools: names of tools that it may call, found in the run's toolbox.
        memory: notes that are shown to it below its prompt, oldest first.
        kind: which of the kinds in selfwire.nodes acts for it, such as worker or aggregator.
        temperature: sampling temperature in [0, 2]; None leaves it to the method.
    """

    id: Id
    role: str = ""
    prompt: str
    tools: tuple[Id, ...] = ()
    memory: tuple[str, ...] = Field(default=(), max_length=MEMORY_NOTES)
    kind: str = "worker"
    temperature: float | None = Field(default=None, ge=0, le=2)
