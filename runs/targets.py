"""What a name means: a bare name of a method or baseline is that method or baseline, and never a saved team."""

from collections.abc import Iterable

from selfwire.core.errors import ConfigError, LibraryError
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.table import BASELINES
from selfwire.graphs.method_names import method_names
from selfwire.runtime.versions import Version
from selfwire.runtime.workflow_library import TEAM, WorkflowLibrary

GROUPS = ("methods", "baselines", "all")
"""Words by which `selfwire compare` means several systems."""


def find_kind(name: str) -> str:
    """What has this name: "method", "baseline" or "word of `selfwire compare`"; "" if none of them has."""
    if name in method_names():
        return "method"
    if name in BASELINES:
        return "baseline"
    return "word of `selfwire compare`" if name in GROUPS else ""


def to_team_reference(name: str) -> str:
    """How the saved team of a name is meant on the command line."""
    return TEAM + name if find_kind(name) else name


def require_saved(ref: str) -> str:
    """A reference to a saved team, as it is.

    Raises:
        ConfigError: it means a method, a baseline or a group of them.
    """
    if kind := find_kind(ref):
        raise ConfigError(
            f"{ref!r} is a {kind}, and a saved team is wanted here; a saved team of that name is {TEAM}{ref}"
        )
    return ref


async def load_saved(ref: str, library: WorkflowLibrary) -> tuple[Workflow, Version | None]:
    """A saved team, and its version unless it comes from a file.

    Raises:
        LibraryError: there is none; where nothing of its name was ever saved, the message lists methods and baselines.
    """
    try:
        workflow = await library.load(ref)
        return workflow, None if ref.endswith(".json") else await library.find(ref)
    except LibraryError as error:
        if ref.endswith(".json") or ref.removeprefix(TEAM).partition("@")[0] in await library.names():
            raise
        raise LibraryError(
            f"{error}; methods are {', '.join(method_names())}; baselines are {', '.join(BASELINES)}"
        ) from None


def describe_other_model(made_with: str, model: str) -> str:
    """What to add to the name of a saved team that another model answers for; "" where none is known to.

    Args:
        made_with: the model of its agents when it was evolved; "" where that is not known.
        model: that answers now.
    """
    if made_with in ("", model):
        return ""
    return f"; evolved with {made_with}, and {model} answers now (--model {made_with} for the same)"


def describe_clashes(names: Iterable[str], saved: Iterable[str]) -> tuple[str, ...]:
    """A line for every name of a method or baseline under which a team is saved too."""
    teams = set(saved)
    return tuple(
        f"{name} is a {kind}; the team that is saved under the same name is {TEAM}{name}"
        for name in dict.fromkeys(names)
        if name in teams and (kind := find_kind(name))
    )
