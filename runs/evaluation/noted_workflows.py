"""The workflows of an evaluation in its journal, so that it is resumed, and worked at elsewhere, without a library."""

from collections.abc import Mapping

from selfwire.core.errors import JournalError
from selfwire.runs.evaluation.systems import LoadedWorkflow
from selfwire.runtime.blobs import encode_blob, find_blob, find_blob_references, load_blob
from selfwire.runtime.journal import Journal

WORKFLOWS = "workflows"
"""Name of the note that holds every system's workflow, as hashes by name."""
BLOBS = "blobs"
"""Notes are called blobs/<reference>."""


async def note_workflows(journal: Journal, workflows: Mapping[str, LoadedWorkflow]) -> None:
    """Keep the systems' workflows, with the bytes to which they refer."""
    for one in workflows.values():
        for reference in find_blob_references(one.workflow.memory):
            note = f"{BLOBS}/{reference}"
            if find_blob(reference) is not None and await journal.get_note(note) is None:
                await journal.put_note(note, await journal.put_body(encode_blob(reference)))
    bodies = {name: await journal.put_body(one.model_dump(mode="json")) for name, one in workflows.items()}
    await journal.put_note(WORKFLOWS, bodies)


async def load_noted_workflows(journal: Journal) -> dict[str, LoadedWorkflow]:
    """The systems' workflows, whose bytes this process then has.

    Raises:
        JournalError: there are none, or the bytes have been changed.
    """
    bodies = await journal.get_note(WORKFLOWS)
    if bodies is None:
        raise JournalError(f"run {journal.run!r} ended before it had begun; start a new run")
    workflows = {name: LoadedWorkflow.model_validate(await journal.get_body(body)) for name, body in bodies.items()}
    for one in workflows.values():
        for reference in find_blob_references(one.workflow.memory):
            digest = await journal.get_note(f"{BLOBS}/{reference}")
            if digest is not None and find_blob(reference) is None:
                try:
                    load_blob(reference, await journal.get_body(digest))
                except (ValueError, TypeError):
                    raise JournalError(
                        f"the bytes {reference[:19]}... of a workflow have been changed in run {journal.run!r}"
                    ) from None
    return workflows
