"""Workflows as JSON files, for people and for other programs."""

from pathlib import Path

from pydantic import ValidationError

from selfwire.core.errors import LibraryError
from selfwire.core.workflow import Workflow


def write_workflow(workflow: Workflow, path: Path) -> None:
    """Write a workflow as JSON for people and `read_workflow`.

    Raises:
        LibraryError: the file cannot be written.
    """
    try:
        path.write_text(workflow.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise LibraryError(f"workflow cannot be written to {path}: {error}") from None


def read_workflow(path: Path) -> Workflow:
    """Read an exported workflow.

    Raises:
        LibraryError: the file is missing or is not a workflow.
    """
    try:
        return Workflow.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryError(f"workflow file {path} cannot be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise LibraryError(f"{path} is not an exported workflow: {place}: {first['msg']}") from None
