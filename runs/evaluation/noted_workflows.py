"""The workflows of an evaluation in its journal, so that it is resumed, and worked at elsewhere, without a library."""

from collections.abc import Mapping

from selfwire.core.errors import JournalError
from selfwire.runs.evaluation.systems import LoadedWorkflow
from selfwire.runs.noted_blobs import load_noted_blobs, note_blobs
from selfwire.runtime.journal import Journal

WORKFLOWS = "workflows"
"""Name of the note that holds every system's workflow, as hashes by name."""


async def note_workflows(journal: Journal, workflows: Mapping[str, LoadedWorkflow]) -> None:
    """Keep the systems' workflows, with the bytes to which they refer."""
    for one in workflows.values():
        await note_blobs(journal, one.workflow)
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
        await load_noted_blobs(journal, one.workflow)
    return workflows
