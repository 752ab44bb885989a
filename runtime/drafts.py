"""Files that appear whole: made under another name, then linked, so that of two processes one wins."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def make_draft(path: Path) -> Iterator[Path]:
    """An empty file beside `path` with mode 0600, which is removed at the end."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
    finally:
        draft.unlink()


def place_draft(draft: Path, path: Path) -> bool:
    """Give a draft its name; False if a file has that name already."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        return _copy(draft, path)
    return True


def _copy(draft: Path, path: Path) -> bool:
    """Copy a draft, unless another process was faster; a copy that fails, as on a full disk, leaves no half file."""
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            path.chmod(0o600)
            file.write(draft.read_bytes())
    except BaseException:
        path.unlink()
        raise
    return True
