"""How often replies were valid objects, as a run's journal tells it."""

from typing import NamedTuple

from selfwire.core.values import fingerprint
from selfwire.runtime.journal import Journal
from selfwire.runtime.model_request import ModelRequest
from selfwire.runtime.recorder import Recorder
from selfwire.runtime.structured import list_faults

ASKED = "asked"
"""In a reply's metadata: that an object was asked for, and whether it was asked for again."""
INVALID_NOTE = "invalid reply "
"""Notes of a journal with what is wrong with a reply begin with this; "once" or "again" and a hash follow."""


class ObjectCounts(NamedTuple):
    """Asks for objects in a run.

    Attributes:
        at_once: whose first reply was valid.
        again: whose second reply was valid.
        invalid: whose second reply was not valid either; a fallback or an error stands for it.
        unanswered: whose second reply never came.
    """

    at_once: int = 0
    again: int = 0
    invalid: int = 0
    unanswered: int = 0

    def __add__(self, other: object) -> "ObjectCounts":
        """The counts of two runs."""
        return ObjectCounts(*map(sum, zip(self, other, strict=True))) if isinstance(other, ObjectCounts) else self


async def note_invalid(journal: Recorder, request: ModelRequest, error: ValueError) -> None:
    """Note that a reply was no valid object, and why."""
    ask = fingerprint([request.scope.key, *(message.content for message in request.messages)])
    name = f"{INVALID_NOTE}{'again' if request.again else 'once'} {ask}"
    await journal.put_note(name, f"{request.where}: {list_faults(error)}")


async def count_invalid_replies(journal: Journal) -> int:
    """The asks for objects of a run that got no valid one, even when asked again."""
    return len(await journal.note_names(f"{INVALID_NOTE}again"))


async def count_objects(journal: Journal) -> ObjectCounts:
    """The asks for objects of a run."""
    asked = [row.reply["metadata"].get(ASKED) for row in await journal.rows(kind="model", state="settled")]
    first, again = ([one for one in asked if one and one["again"] is kind] for kind in (False, True))
    doubted = len(await journal.note_names(f"{INVALID_NOTE}once"))
    invalid = await count_invalid_replies(journal)
    return ObjectCounts(len(first) - doubted, len(again) - invalid, invalid, doubted - len(again))
