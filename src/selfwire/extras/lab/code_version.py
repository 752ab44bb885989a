"""The code that made a file of rows: a hash of its sources, and the commit that they are."""

import subprocess
from pathlib import Path

from selfwire.core.plugins import compute_code_hash
from selfwire.core.values import FrozenModel

NOT_NAMED = "code not named"
"""In place of the code of rows that do not name it."""


class CodeVersion(FrozenModel):
    """The code that made rows.

    Args:
        code: hash of selfwire's sources and prompts; "" if the rows do not name it.
        commit: whose sources they are; "" outside a repository, and where files were changed since.
    """

    code: str = ""
    commit: str = ""

    def __str__(self) -> str:
        return ", commit ".join(filter(None, (self.code, self.commit))) or NOT_NAMED


def find_code_version() -> CodeVersion:
    """Find the code that runs, and its commit where git knows one."""
    return CodeVersion(code=compute_code_hash(), commit=find_commit(Path(__file__).resolve()))


def find_commit(file: Path) -> str:
    """Find the commit of a repository's file; "" for a file of none, and where a file of the repository was changed."""
    tracked = _ask_git(file.parent, "ls-files", "--error-unmatch", file.name)
    if tracked is None or _ask_git(file.parent, "status", "--porcelain", "--untracked-files=no", ":/") != "":
        return ""
    return _ask_git(file.parent, "rev-parse", "--short=8", "HEAD") or ""


def _ask_git(folder: Path, *words: str) -> str | None:
    """Ask git; None where it has no answer."""
    try:
        asked = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()
