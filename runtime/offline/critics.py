"""Critics, judges and evolvers: recognised by the fields of the object that is asked for.

They see what the prompt shows them in sections such as <trace>...</trace>, run no worker skill, and go wrong at
the model's `critic_error_rate`. A schema that nobody here recognises gets a valid object that decides nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from selfwire.runtime.offline import coevolution, gradients, orchestration, rounds, rubric, stages
from selfwire.runtime.offline.critic_input import Critic, CriticInput
from selfwire.runtime.offline.neutral import neutral
from selfwire.runtime.offline.worker import PlainMessage

CRITICS: Mapping[frozenset[str], Critic] = {
    **gradients.CRITICS,
    **coevolution.CRITICS,
    **rounds.CRITICS,
    **rubric.CRITICS,
    **orchestration.CRITICS,
    **stages.CRITICS,
}
"""Who fills an object, by the names of its fields."""


def reply(
    schema: Mapping[str, Any],
    messages: Sequence[PlainMessage],
    random: Callable[[str], Random],
    error_rate: float,
    slip_rate: float = 0.0,
) -> dict[str, Any]:
    """The object that is asked for.

    Args:
        schema: its JSON schema.
        messages: the whole conversation.
        random: a generator per purpose, keyed by the messages.
        error_rate: share of judgements that go wrong.
        slip_rate: share of steps of work that go wrong, where the object is a worker's.
    """
    critic = CRITICS.get(frozenset(schema.get("properties", {})))
    if critic is None:
        found = neutral(schema)
        return found if isinstance(found, dict) else {}
    system = "\n".join(said.text for said in messages if said.role == "system")
    return critic(CriticInput(sections(messages), random, error_rate, system, slip_rate))


def sections(messages: Sequence[PlainMessage]) -> dict[str, str]:
    """The tagged sections of the users' messages; what stands between the first and the last tag of a name."""
    text = "\n".join(said.text for said in messages if said.role == "user")
    names = dict.fromkeys(re.findall(r"<([a-z_]+)>", text))
    found = {name: re.search(rf"<{name}>(.*)</{name}>", text, re.DOTALL) for name in names}
    return {name: match[1].strip() for name, match in found.items() if match}
