"""Workflows as JSON files, with the bytes that they refer to in files beside them, named by hash."""

from pathlib import Path

from pydantic import ValidationError

from selfwire.core.errors import LibraryError, format_first_fault
from selfwire.core.workflow import Workflow
from selfwire.runtime.blobs import compute_blob_reference, find_blob, find_blob_references, get_blob, put_blob


def write_workflow(workflow: Workflow, path: Path) -> tuple[Path, ...]:
    """Write a workflow as JSON.

    Returns:
        The files beside it with the bytes that it refers to, such as a router's weights; it needs them.

    Raises:
        LibraryError: the file cannot be written.
    """
    try:
        beside = {_beside(path, reference): get_blob(reference) for reference in find_blob_references(workflow.memory)}
        for file, data in beside.items():
            file.write_bytes(data)
        path.write_text(workflow.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return tuple(beside)
    except OSError as error:
        raise LibraryError(f"workflow cannot be written to {path}: {error}") from None


def read_workflow(path: Path) -> Workflow:
    """Read an exported workflow.

    Raises:
        LibraryError: the file is missing or is not a workflow.
    """
    try:
        workflow = Workflow.model_validate_json(path.read_text(encoding="utf-8"))
        for reference in find_blob_references(workflow.memory):
            _read_beside(path, reference)
        return workflow
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryError(f"workflow file {path} cannot be read: {error}") from None
    except ValidationError as error:
        raise LibraryError(f"{path} is not an exported workflow: {format_first_fault(error, 'the file')}") from None


def _beside(path: Path, reference: str) -> Path:
    return path.with_name(f"{path.stem}.{reference.removeprefix('sha256:')[:12]}.bin")


def _read_beside(path: Path, reference: str) -> None:
    if find_blob(reference) is not None:
        return
    try:
        data = _beside(path, reference).read_bytes()
    except FileNotFoundError:
        raise LibraryError(
            f"{path} needs {_beside(path, reference).name} beside it, with bytes such as a router's weights; "
            "copy that file too, or export the workflow again"
        ) from None
    if compute_blob_reference(data) != reference:
        raise LibraryError(f"{_beside(path, reference)} is not what {path} refers to; export the workflow again")
    put_blob(data)
