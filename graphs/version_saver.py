"""Keeps workflows that people's graphs evolve as versions of a saved workflow."""

from collections.abc import Awaitable, Callable

from selfwire.core.scope import Scope
from selfwire.core.values import fingerprint, is_id
from selfwire.core.workflow import Workflow
from selfwire.runtime.workflow_library import WorkflowLibrary

Saver = Callable[[Workflow, Scope, int], Awaitable[None]]
"""Keeps an evolved workflow; the number grows from save to save within a thread."""


def make_saver(library: WorkflowLibrary, name: str, method: str, embedder: str) -> Saver:
    """Make a function that saves an evolved workflow as a version of `name`, keyed by thread and step."""

    async def save(workflow: Workflow, scope: Scope, step: int) -> None:
        run = scope.run if is_id(scope.run) else fingerprint(scope.run)
        taken: dict[str, str] = {}
        if name in await library.names():
            taken = {v.version: v.fingerprint for v in (await library.history(name)).versions}
        while taken.get(f"{run}.{step}", workflow.fingerprint) != workflow.fingerprint:
            step += 1  # a fork of the thread saved another one there
        facts = {"method": method, "question": scope.task, "embedder": embedder}
        await library.save(name, workflow, run=run, step=step, facts=facts)

    return save
