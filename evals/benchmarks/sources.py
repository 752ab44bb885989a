"""Where benchmark data comes from: a folder of one's own, or the pinned upstream file, checked and cached.

`sources.json` says of each file which upstream file it is (repository, commit, path), its licence and its SHA-256.
A file that differs from upstream names the change that makes it; one that cannot be made here is had only from
the folder that SELFWIRE_DATA names.
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
"""Seconds that a download may stand still."""

Fetch = Callable[[str], bytes]
"""Brings the bytes at an address; raises OSError or HTTPException."""


class Source(FrozenModel):
    """One file of benchmark data.

    Args:
        repository, commit, path: the upstream file on GitHub; "" where there is none.
        licence: of the upstream file.
        sha256: of the file as it is used here, after `change`.
        change: what is done to the upstream file; `local_only` cannot be done here.
        note: how the file differs from upstream, for people.
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
        """Where the upstream file is downloaded from."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.path}"

    @property
    def upstream(self) -> str:
        """The upstream file, for people."""
        return f"{self.path} of github.com/{self.repository} at commit {self.commit}" if self.repository else self.note

    def made_from(self, raw: bytes) -> bytes:
        """The file as it is used here, from the upstream file."""
        lines = raw.splitlines(keepends=True)
        if self.change == "first_100_lines":
            return b"".join(lines[:100])
        if self.change == "without_solution":
            kept = ({key: value for key, value in json.loads(line).items() if key != "solution"} for line in lines)
            return "".join(json.dumps(one) + "\n" for one in kept).encode()
        return raw


@cache
def list_sources() -> dict[str, Source]:
    """Every source by its path below the folder."""
    text = (files("selfwire.evals.benchmarks") / "sources.json").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Source]).validate_json(text)


def download(address: str) -> bytes:
    """The bytes at an https address."""
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:  # every address is https, see `Source.address`
        found: bytes = answer.read()
        return found


@dataclass(frozen=True)
class Sources:
    """Finds files of benchmark data.

    Attributes:
        folder: of one's own, looked at first; None for none.
        cache: folder of downloads.
        fetch: downloads.
    """

    folder: Path | None
    cache: Path
    fetch: Fetch = download

    @classmethod
    def of_this_user(cls) -> "Sources":
        """The folder that the environment names, and the user's cache folder.

        Raises:
            ConfigError: the environment names what is no folder.
        """
        named = os.environ.get(VARIABLE, "").strip()
        folder = Path(named).expanduser() if named else None
        if folder is not None and not folder.is_dir():
            raise ConfigError(
                f"{VARIABLE} names {named!r}, which is no folder; name one with benchmark data or unset it"
            )
        return cls(folder, user_cache_path("selfwire") / "data")

    def find(self, name: str) -> Path:
        """A file that is on disk and has the hash of the table; see `source`."""
        wanted = list_sources().get(name)
        if wanted is None:
            raise ConfigError(f"there is no source {name!r}; sources are {', '.join(list_sources())}")
        if self.folder is not None and (own := self.folder / name).is_file():
            return _checked(own, wanted, f"the folder that {VARIABLE} names")
        kept = self.cache / wanted.sha256[:16] / Path(name).name
        if not kept.is_file():
            _write(kept, self._made(name, wanted))
        return _checked(kept, wanted, "the cache; delete it there")

    def _made(self, name: str, wanted: Source) -> bytes:
        way_out = f"put the file as {name} into a folder and name that folder in {VARIABLE}; it is {wanted.upstream}"
        if wanted.change == "local_only":
            raise ConfigError(f"benchmark data {name} cannot be made from a download ({wanted.note}); {way_out}")
        try:
            raw = self.fetch(wanted.address)
        except (OSError, HTTPException) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ConfigError(f"benchmark data {name} cannot be downloaded ({why}); {way_out}") from error
        try:
            made = wanted.made_from(raw)
        except ValueError:
            made = b""
        if _sha256(made) != wanted.sha256:
            raise ConfigError(f"the download of {name} from {wanted.address} has another hash than is known; {way_out}")
        return made


def find_source(name: str) -> Path:
    """The file of benchmark data at a path such as `gsm8k/test.jsonl`; downloads and caches it where it must.

    Raises:
        ConfigError: there is no such source; it is neither in the folder that SELFWIRE_DATA names nor in the cache
            and cannot be downloaded; or the file is not the pinned one.
    """
    return Sources.of_this_user().find(name)


def _checked(path: Path, wanted: Source, where: str) -> Path:
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
    """Write a file whole or not at all, whoever else writes it."""
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
    """The objects of a source of JSON lines, in order.

    Raises:
        ConfigError: as `source`.
    """
    return [json.loads(line) for line in find_source(name).read_bytes().splitlines() if line.strip()]
