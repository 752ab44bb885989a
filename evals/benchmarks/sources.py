"""Sources of benchmark data: the user's own folder, or pinned upstream files, which are checked and cached.

`sources.json` gives the upstream file (repository, commit, path), licence and SHA-256 of each file. A file that differs
from upstream names its change; if the change cannot be made here, the file must be in the folder that SELFWIRE_DATA
names.
"""

import hashlib
import json
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path
from pydantic import TypeAdapter

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel

VARIABLE = "SELFWIRE_DATA"
"""Environment variable that names a folder with the files of `sources.json`."""

TIMEOUT = 60.0
"""Seconds without data after which a download fails."""

Fetch = Callable[[str], bytes]
"""Downloads the bytes at an address; raises OSError or HTTPException."""


class DataFile(FrozenModel):
    """A file of benchmark data.

    Args:
        repository, commit, path: the upstream file on GitHub; "" if there is none.
        sha256: of the file after `change`.
        change: change to the upstream file; `local_only` cannot be made here.
        note: the difference from upstream, for people.
    """

    repository: str = ""
    commit: str = ""
    path: str = ""
    licence: str
    sha256: str
    change: Literal["none", "without_solution", "first_100_lines", "local_only"] = "none"
    note: str = ""

    @property
    def address(self) -> str:
        """Download address of the upstream file."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.path}"

    @property
    def upstream(self) -> str:
        """Describe the upstream file."""
        return f"{self.path} of github.com/{self.repository} at commit {self.commit}" if self.repository else self.note

    def apply_change(self, raw: bytes) -> bytes:
        """Convert the upstream file to the form that selfwire reads."""
        lines = raw.splitlines(keepends=True)
        if self.change == "first_100_lines":
            return b"".join(lines[:100])
        if self.change == "without_solution":
            kept = ({key: value for key, value in json.loads(line).items() if key != "solution"} for line in lines)
            return "".join(json.dumps(row) + "\n" for row in kept).encode()
        return raw


@cache
def list_sources() -> dict[str, DataFile]:
    """List the data files by path below the folder."""
    text = (files("selfwire.evals.benchmarks") / "sources.json").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, DataFile]).validate_json(text)


def download(address: str) -> bytes:
    """Download the bytes at an https address."""
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:  # every address is https, see `DataFile.address`
        return bytes(answer.read())


@dataclass(frozen=True)
class Sources:
    """The files of benchmark data: in the user's own folder, then in the cache of downloads."""

    folder: Path | None
    cache: Path
    fetch: Fetch = download

    @classmethod
    def of_this_user(cls) -> "Sources":
        """The folder that the environment names, and the user's cache folder; ConfigError if it names no folder."""
        named = os.environ.get(VARIABLE, "").strip()
        folder = Path(named).expanduser() if named else None
        if folder is not None and not folder.is_dir():
            raise ConfigError(
                f"{VARIABLE} names {named!r}, which is no folder; name one with benchmark data or unset it"
            )
        return cls(folder, user_cache_path("selfwire") / "data")

    def find(self, name: str) -> Path:
        """Find the checked file on disk; see `find_source`."""
        wanted = list_sources().get(name)
        if wanted is None:
            raise ConfigError(f"there is no source {name!r}; sources are {', '.join(list_sources())}")
        if self.folder is not None and (own := self.folder / name).is_file():
            return _check(own, wanted, f"the folder that {VARIABLE} names")
        kept = self.cache / wanted.sha256[:16] / Path(name).name
        if not kept.is_file():
            _write(kept, self._download(name, wanted))
        return _check(kept, wanted, "the cache; delete it there")

    def _download(self, name: str, wanted: DataFile) -> bytes:
        way_out = f"put the file as {name} into a folder and name that folder in {VARIABLE}; it is {wanted.upstream}"
        if wanted.change == "local_only":
            raise ConfigError(f"benchmark data {name} cannot be made from a download ({wanted.note}); {way_out}")
        try:
            raw = self.fetch(wanted.address)
        except (OSError, HTTPException) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ConfigError(f"benchmark data {name} cannot be downloaded ({why}); {way_out}") from error
        try:
            content = wanted.apply_change(raw)
        except ValueError:
            content = b""
        if _sha256(content) != wanted.sha256:
            raise ConfigError(f"the download of {name} from {wanted.address} has another hash than is known; {way_out}")
        return content


def find_source(name: str) -> Path:
    """Find the file of benchmark data at a path such as `gsm8k/test.jsonl`; download and cache it if needed.

    Raises:
        ConfigError: there is no such source; it is neither in the folder that SELFWIRE_DATA names nor in the cache
            and cannot be downloaded; or the file is not the pinned one.
    """
    return Sources.of_this_user().find(name)


def _check(path: Path, wanted: DataFile, where: str) -> Path:
    stat = path.stat()
    found = _hash_of(path, stat.st_mtime_ns, stat.st_size)
    if found != wanted.sha256:
        raise ConfigError(
            f"{path} in {where} is not the pinned file: its SHA-256 is {found}, not {wanted.sha256}; "
            f"scores on it would compare with nobody's. It should be {wanted.upstream}"
            + (f", changed so: {wanted.note}" if wanted.note else "")
        )
    return path


@cache
def _hash_of(path: Path, mtime: int, size: int) -> str:
    return _sha256(path.read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            part.write(content)
        Path(part.name).replace(path)
    except OSError as error:
        raise ConfigError(
            f"the download cannot be kept at {path}: {error.strerror}; name data in {VARIABLE}"
        ) from error


def read_rows(name: str) -> list[dict[str, Any]]:
    """Read the objects of a file of JSON lines, in order; raises as `find_source`."""
    return [json.loads(line) for line in find_source(name).read_bytes().splitlines() if line.strip()]
