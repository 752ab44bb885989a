"""The user's consent to files of others, and the marks of the user's own runs; both in the user's config folder.

A run's mark is an HMAC of what a resume would take from the run, by a key that only this user can read. A run with
another mark was made or changed by another user. Consent is kept by the path of a file and by a hash of what was shown.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from platformdirs import user_config_path

from selfwire.core.errors import ConfigError
from selfwire.store.files import make_draft, place_draft

CONFIG_HOME = "SELFWIRE_CONFIG_HOME"
"""Environment variable with another config folder."""
KEY = "runs.key"
"""Name of the file with the key of marks; mode 0600."""
AGREED = "agreed.json"
"""Name of the file with the hash by path of the files that the user has agreed to; mode 0600."""


def get_config_folder() -> Path:
    """Find the user's config folder of selfwire, which need not exist; without a home of the user it cannot be made."""
    if own := os.environ.get(CONFIG_HOME):
        return Path(own).expanduser()
    with suppress(RuntimeError):  # the user has no home
        if (usual := user_config_path("selfwire", appauthor=False)).is_absolute():
            return usual
    return Path(os.devnull) / "selfwire"  # never in the working directory


def make_mark(text: str) -> str:
    """Mark a text as this user's; "" if the config folder can hold no key."""
    try:
        key = _load_key(get_config_folder() / KEY)
    except OSError:
        return ""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def is_own(text: str, mark: object) -> bool:
    """Whether a mark is this user's mark of a text; makes no key."""
    if not isinstance(mark, str) or not (get_config_folder() / KEY).is_file():
        return False
    own = make_mark(text)
    return bool(own) and hmac.compare_digest(own.encode(), mark.encode("utf-8", "replace"))


@lru_cache(maxsize=4)
def _load_key(path: Path) -> bytes:
    """Load the key, or make it; of two processes that make one at once both get the first."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with make_draft(path) as draft:
            draft.write_bytes(secrets.token_bytes(32))
            place_draft(draft, path)
    key = path.read_bytes()
    if len(key) < 32:
        raise OSError(f"{path} is no key")
    return key


def is_agreed(path: Path | str, digest: str, question: str, ask: Callable[[str], bool]) -> bool:
    """Whether the user has agreed to a file, or agrees now, which is kept.

    Args:
        path: of the file; an address as a text.
        digest: hash of what the file gives; of another one the user is asked again.
        ask: puts the question to the user; False where nobody can answer.

    Raises:
        ConfigError: the answer cannot be kept.
    """
    kept, place = get_config_folder() / AGREED, str(path.resolve()) if isinstance(path, Path) else path
    agreed = _read_agreed(kept)
    if agreed.get(place) == digest:
        return True
    if not ask(question):
        return False
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with make_draft(kept) as draft:
            draft.write_text(json.dumps({**agreed, place: digest}, indent=2), encoding="utf-8")
            draft.replace(kept)
    except OSError as error:
        raise ConfigError(
            f"the answer cannot be kept in {kept}: {error.strerror}; set {CONFIG_HOME} to a folder of yours"
        ) from None
    return True


def _read_agreed(path: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
