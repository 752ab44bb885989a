"""The bytes to which a team refers, kept in a journal, so that the journal alone suffices without a library."""

from selfwire.core.errors import JournalError
from selfwire.core.team import Team
from selfwire.store.files import encode_blob, find_blob, find_blob_references, load_blob
from selfwire.store.journal import Journal

BLOBS = "blobs"
"""Notes are called blobs/<reference>."""


async def note_blobs(journal: Journal, team: Team) -> None:
    """Keep the bytes that this process has."""
    for reference in find_blob_references(team.memory):
        note = f"{BLOBS}/{reference}"
        if find_blob(reference) is not None and await journal.get_note(note) is None:
            await journal.put_note(note, await journal.put_body(encode_blob(reference)))


async def load_noted_blobs(journal: Journal, team: Team) -> None:
    """Give this process the bytes that it lacks.

    Raises:
        JournalError: they have been changed.
    """
    for reference in find_blob_references(team.memory):
        digest = await journal.get_note(f"{BLOBS}/{reference}")
        if digest is not None and find_blob(reference) is None:
            try:
                load_blob(reference, await journal.get_body(digest))
            except (ValueError, TypeError):
                raise JournalError(
                    f"the bytes {reference[:19]}... of a team have been changed in run {journal.run!r}"
                ) from None
