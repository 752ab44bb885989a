"""The library of saved teams: immutable versions by name, in SQLite, PostgreSQL or memory.

A version is keyed by (run, step): a resumed run writes the same keys, and two runs never share one, so no
compare-and-set is needed. Bodies are stored once per fingerprint; versions hold facts and lineage. Rollbacks move
the head and are recorded under their own keys.

Namespaces: (selfwire, bodies) by fingerprint; (selfwire, versions, name) by "run.step"; (selfwire, heads) by name;
(selfwire, rollbacks, name) by time; (selfwire, tags, name) by tag; (selfwire, blobs) by hash, see `blobs`.
"""

import asyncio
import hashlib
import json
import logging
import os
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from langgraph.store.base import BaseStore, Item, Op, PutOp, Result, SearchItem
from langgraph.store.memory import InMemoryStore
from pydantic import Field, StrictFloat, TypeAdapter, ValidationError, field_validator
from typing_extensions import TypedDict

from selfwire.core.errors import ConfigError, LibraryError
from selfwire.core.plugins import GRAPHS, find_graph_file, is_graph
from selfwire.core.team import Lineage, Team
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, Id, is_id, to_canonical_json, to_plain_json
from selfwire.store.files import (
    encode_blob,
    find_blob,
    find_blob_references,
    find_computed_part,
    load_blob,
    make_draft,
    place_draft,
    read_team,
)
from selfwire.store.trust import CONFIG_HOME, get_config_folder, is_agreed, is_own, make_mark

if TYPE_CHECKING:
    from langgraph.store.sqlite import SqliteStore


_log = logging.getLogger(__name__)


class Facts(TypedDict, total=False):
    """Facts of a version that have a form; it may have others."""

    applied: Sequence[Mapping[str, Any]]
    reasons: Sequence[str]
    refused: Sequence[Any]
    gate: Mapping[str, Any] | None
    notes: Mapping[str, Any] | None
    approval: Mapping[str, Any] | None
    spend: Usage | None
    score: StrictFloat | None


_FACTS = TypeAdapter(Facts)


class Version(FrozenModel):
    """A version of the team `name`, saved by a run at a step and a time (ISO 8601 in UTC).

    `facts` are score, cost, reasons, accepted, embedder, method, benchmark, ... `mark` is that of the user who saved a
    team of a graph, whose code is imported where the team is asked; see `Library.refuse_foreign_graph`.
    """

    name: Id
    run: Id
    step: int = Field(ge=0)
    fingerprint: str
    saved: str
    facts: FrozenJson = Field(default_factory=FrozenMap)
    lineage: Lineage = Lineage()
    mark: str = Field(default="", exclude_if=lambda mark: not mark)

    @field_validator("facts")
    @classmethod
    def _check_facts(cls, facts: Any) -> Any:
        """Refuse facts of another form than `Facts`, as a library may be of another user."""
        _FACTS.validate_python(facts)
        return facts

    @property
    def version(self) -> str:
        """Its name in the history: `run.step`."""
        return f"{self.run}.{self.step}"

    @property
    def age(self) -> tuple[str, str, int]:
        """Sort key from old to new."""
        return (self.saved, self.run, self.step)

    @property
    def ref(self) -> str:
        """Its reference for `Library.load`: `name@run.step`."""
        return f"{self.name}@{self.version}"

    def __repr__(self) -> str:
        """Reference, score and reason, such as `<mine@first.2: score 0.60, a gain above 0 is proved>`."""
        score, why = self.facts.get("score"), self.facts.get("why")
        said = [*([] if score is None else [f"score {score:.2f}"]), *([str(why)] if why else [])]
        return f"<{self.ref}{': ' * bool(said)}{', '.join(said)}>"


class Rollback(FrozenModel):
    """A move of the head from a version to another, at an ISO 8601 time."""

    source: str
    target: str
    at: str


class History(FrozenModel):
    """All versions and rollbacks of a team, oldest first, its head (which `load(name)` loads), and its tags."""

    name: str
    head: str
    versions: tuple[Version, ...]
    rollbacks: tuple[Rollback, ...] = ()
    tags: FrozenJson = Field(default_factory=FrozenMap)


SCHEMA = 1
"""Version of the format, in the header of a SQLite file and in every entry."""

PATIENCE = 30.0
"""Seconds to wait for a library that another process writes to."""
_MAGIC = b"SQLite format 3\x00"
_APPLICATION = 0x73776C62
"""SQLite's application id of a library file ("swlb"), which other databases do not have."""
_WAY_OUT = "it is left as it is; move it away or choose another home with --home"


def home_folder(home: Path | str | None = None) -> Path:
    """Return the folder of library and runs, absolute: the argument, else SELFWIRE_HOME, else `.selfwire` here.

    Raises:
        ConfigError: it is a file, or no path; or SELFWIRE_HOME is an address.
    """
    wanted = home or to_local_folder(os.environ.get("SELFWIRE_HOME")) or ".selfwire"
    try:
        folder = Path(wanted).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):
            folder.lstat()
    except (RuntimeError, ValueError, OSError) as error:  # an unknown user behind ~; a NUL; a name that is too long
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"home {str(wanted)[:60]!r} cannot be used: {why}; choose another with --home") from None
    with suppress(FileNotFoundError):  # the working directory is gone
        folder = folder.absolute()
    if folder.is_file():
        raise ConfigError(f"{folder} is a file, and teams and runs lie in a folder; choose another with --home")
    return folder


def to_local_folder(home: Path | str | None) -> Path | None:
    """The home as a folder; runs need a folder.

    Raises:
        ConfigError: it is an address.
    """
    if "://" in str(home):
        raise ConfigError(f"runs lie in a folder, not at {str(home).partition('://')[0]}://; name a folder with --home")
    return Path(home) if home else None


def format_home_option(home: Path | str | None) -> str:
    """Format the option that makes another command use the same folder or address; "" for the default."""
    if not home or str(home) == (os.environ.get("SELFWIRE_HOME") or ".selfwire"):
        return ""
    return f" --home {shlex.quote(str(home))}"


class ThreadedStore(BaseStore):
    """A synchronous store with LangGraph's async interface; errors of its driver (`faults`) become LibraryError."""

    def __init__(
        self, inner: BaseStore, where: str, faults: tuple[type[Exception], ...], release: Callable[[], None]
    ) -> None:
        self.where = where
        self._inner, self._release = inner, release
        self._faults: tuple[type[Exception], ...] = (*faults, ValueError, RecursionError)  # of entries that are no JSON

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction; raises LibraryError if the database refused."""
        try:
            return self._inner.batch(ops)
        except self._faults as error:
            raise LibraryError(f"library {self.where} cannot be used: {error}") from None

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in one transaction, without blocking the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def close(self) -> None:
        """Close the connection."""
        self._release()


def open_sqlite(path: Path) -> ThreadedStore:
    """Open a library file, or create it with mode 0600; raises LibraryError if it is corrupt, foreign or newer."""
    try:
        if not path.exists():
            _create(path)
        refuse_foreign(path)
        connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise LibraryError(f"library {path} cannot be opened: {error}") from None
    store = _make_store(connection)

    def release() -> None:
        with store.lock:  # a cancelled run leaves its last write to a thread
            connection.close()

    return ThreadedStore(store, str(path), (sqlite3.Error, json.JSONDecodeError), release)


def open_snapshot(path: Path) -> ThreadedStore:
    """Open a library file for reading without a lock, so that no other process waits.

    A read during another process's write may raise an error, or see a half-written state.

    Raises:
        LibraryError: the file is foreign or newer, or a process is writing it.
    """
    try:
        _refuse_header(path)
        if path.with_name(f"{path.name}-journal").exists():
            raise LibraryError(f"library {path} is being written; it is read again soon")
        uri = f"{path.absolute().as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            _refuse_computed(path, connection)
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise LibraryError(f"library {path} cannot be opened: {error}") from None
    return ThreadedStore(_make_store(connection), str(path), (sqlite3.Error, json.JSONDecodeError), connection.close)


def _make_store(connection: sqlite3.Connection) -> "SqliteStore":
    from langgraph.store.sqlite import SqliteStore  # imports numpy

    return SqliteStore(connection)


def refuse_foreign(path: Path) -> None:
    """Raise a LibraryError with the reason if a file is not a library that can be used.

    Nothing is written, except that SQLite takes back a transaction that a killed process left half written.
    """
    _refuse_header(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=PATIENCE)) as connection:
            _refuse_computed(path, connection)
            found = " ".join(connection.execute("PRAGMA quick_check(1)").fetchone()[0].split())
            connection.execute("SELECT prefix, key, value FROM store LIMIT 1").fetchone()
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise LibraryError(
                f"library {path} is in use by another process: {error}; try again when it is done"
            ) from None
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            why = "a killed process left a transaction half written, and it cannot be taken back"
            raise LibraryError(f"{why} in library {path}: {error}; allow writing to it and to its folder") from None
        raise LibraryError(f"library {path} is corrupt: {error}; {_WAY_OUT}") from None
    if found != "ok":
        raise LibraryError(f"library {path} is corrupt: {found}; {_WAY_OUT}")


def _refuse_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if header[:16] != _MAGIC or int.from_bytes(header[68:72], "big") != _APPLICATION:
        raise LibraryError(f"{path} is not a selfwire library; {_WAY_OUT}")
    schema = int.from_bytes(header[60:64], "big")
    if schema != SCHEMA:
        raise LibraryError(f"library {path} has schema {schema}; this selfwire reads schema {SCHEMA}; {_WAY_OUT}")


def _refuse_computed(path: Path, connection: sqlite3.Connection) -> None:
    if part := find_computed_part(connection):
        raise LibraryError(f"{path} is not a selfwire library: its {part} is none of selfwire's; {_WAY_OUT}")


def _create(path: Path) -> None:
    """Create a complete library under another name, then link it, so that one of two processes wins."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with make_draft(path) as draft:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("PRAGMA synchronous = OFF")  # a draft; the first write to the library saves it too
            _make_store(connection).setup()
        place_draft(draft, path)


def open_postgres(url: str) -> ThreadedStore:
    """Open a library in Postgres.

    Raises:
        ConfigError: the address is wrong, or the extra `postgres` is not installed.
        LibraryError: the server cannot be used.
    """
    if not url.startswith(("postgres://", "postgresql://")):
        raise ConfigError(f"a library is a folder or a postgres:// address, not {url.partition('://')[0]}://...")
    try:
        import psycopg

        from selfwire.store.postgres_pool import LastingStore, open_pool
    except ImportError as error:
        raise ConfigError(
            f"a library at a postgres:// address needs the extra 'postgres': pip install 'selfwire[postgres]' ({error})"
        ) from None
    where = f"postgres://{urlsplit(url).hostname or ''}{urlsplit(url).path}"  # without user and password
    try:
        pool = open_pool(url)
        store = LastingStore(pool)
        store.setup()
    except psycopg.Error as error:
        raise LibraryError(f"library {where} cannot be opened: {error}") from None
    return ThreadedStore(store, where, (psycopg.Error,), pool.close)


LIBRARY_FILE = "library.sqlite"
TEAM = "team:"
"""Optional prefix of a reference, for a saved team whose name also means something else."""
_ROOT = "selfwire"
_PAGE = 500
_ID: TypeAdapter[str] = TypeAdapter(Id)

AnyItem = TypeVar("AnyItem", bound=Item)
AnyEntry = TypeVar("AnyEntry", bound=FrozenModel)


class Library:
    """Saved teams in a LangGraph store, used by its async interface only; `where` names the store in messages."""

    def __init__(self, store: BaseStore, where: str = "memory") -> None:
        self.store, self.where = store, where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store if `open_library` opened it; a store that was passed in stays open."""
        if isinstance(self.store, ThreadedStore):
            self.store.close()

    async def save(
        self,
        name: str,
        team: Team,
        *,
        run: str,
        step: int,
        facts: Mapping[str, Any] | None = None,
        beside: bool = False,
    ) -> Version:
        """Save a version and move the head to it.

        Saving the same team at the same (run, step) again changes nothing and returns the first version.

        Args:
            facts: finite JSON by name; if `facts["accepted"]` is False, an existing head stays.
            beside: whether an existing head stays.

        Raises:
            LibraryError: (run, step) has another team already.
            ValueError: name, step or facts do not validate.
        """
        mark = ""
        if is_graph(team.method):  # it reads files, for which a server's loop does not wait
            mark = await asyncio.to_thread(lambda: make_mark(_describe_for_mark(name, run, step, team)))
        version = Version(
            name=name,
            run=run,
            step=step,
            fingerprint=team.fingerprint,
            saved=_now(),
            facts=dict(facts or {}),
            lineage=team.lineage,
            mark=mark,
        )
        if item := await self._get(("versions", name), version.version):
            existing = self._version(item)
            if existing.fingerprint != version.fingerprint:
                raise LibraryError(
                    f"{existing.ref} holds team {existing.fingerprint} already, not {version.fingerprint}; "
                    "versions never change: save under another run or step"
                )
            return existing
        head = await self._get(("heads",), name)
        blobs = await self._new_blobs(team)
        body = team.model_dump(mode="json", exclude={"lineage"})
        writes = [
            *blobs,
            _put(("bodies",), version.fingerprint, {"workflow": body}),
            _put(("versions", name), version.version, {"version": version.model_dump(mode="json")}),
        ]
        if head is None or not (beside or version.facts.get("accepted") is False):
            writes.append(_put(("heads",), name, {"version": version.version}))
        await self.store.abatch(writes)
        if is_graph(team.method) and not version.mark:
            _warn_of_no_mark(get_config_folder(), f"selfwire show {name} --trust{self._home_option}")
        return version

    async def store_blobs(self, team: Team) -> None:
        """Store the blobs of a team without a version; raises LibraryError if they are not in this process."""
        await self.store.abatch(await self._new_blobs(team))

    async def _new_blobs(self, team: Team) -> list[PutOp]:
        writes = []
        for reference in find_blob_references(team.memory):
            if await self._get(("blobs",), reference) is None:
                if find_blob(reference) is None:
                    raise LibraryError(f"team {team.fingerprint} refers to {reference[:19]}..., which is not loaded")
                writes.append(_put(("blobs",), reference, {"base64": encode_blob(reference)}))
        return writes

    async def load_blobs(self, team: Team) -> Team:
        """Load the blobs of a team and return the team; raises LibraryError if a blob is missing or changed."""
        for reference in find_blob_references(team.memory):
            if find_blob(reference) is None:
                item = await self._get(("blobs",), reference)
                try:
                    load_blob(reference, item.value.get("base64", "") if item else "")
                except (ValueError, TypeError):
                    fault = "have been changed" if item else "are missing"
                    raise LibraryError(f"the bytes {reference[:19]}... {fault} in library {self.where}") from None
        return team

    async def names(self) -> tuple[str, ...]:
        """List the names of the saved teams, sorted."""
        return tuple(sorted(item.key for item in await self._all(("heads",))))

    async def head(self, name: str) -> Version:
        """Find the version that `load(name)` loads; raises LibraryError if there is no such team."""
        name = name.removeprefix(TEAM)
        item = await self._get(("heads",), name)
        if item is None:
            raise await self._missing_error(name)
        return await self.version(name, self._read(item, "version"))

    async def version(self, name: str, version: str) -> Version:
        """Find a version by `run.step`, tag, step or run, of several the newest; raises LibraryError if none fits."""
        name = name.removeprefix(TEAM)
        if is_id(name):
            item = await self._get(("versions", name), version)
            if item is not None:
                return self._version(item)
        history = await self.history(name)
        wanted = history.tags.get(version, version)
        matches = [v for v in history.versions if wanted in (v.version, v.run, str(v.step), v.fingerprint)]
        if len(matches) > 1:
            _tell_of_others(f"{name}@{version}", matches[-1].ref, ", ".join(v.version for v in matches[-12:-1]))
        if matches:
            return matches[-1]
        known = ", ".join(v.version for v in history.versions[-12:])
        raise LibraryError(f"version {version!r} of team {name!r} does not exist; choose among {known}")

    async def load(self, ref: str) -> Team:
        """Load by name, `name@version`, fingerprint (a unique prefix of 6 or more digits) or exported JSON file.

        Wherever the library takes a name, `team:name` is accepted too.
        """
        if ref.endswith(".json"):
            return await asyncio.to_thread(read_team, Path(ref))
        version = await self.find(ref)
        item = await self._get(("bodies",), version.fingerprint)
        if item is None:
            raise LibraryError(f"the body of {version.ref} is missing from library {self.where}")
        try:
            team = Team(**item.value["workflow"], lineage=version.lineage)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise LibraryError(f"the body of {version.ref} in library {self.where} is corrupt: {error}") from None
        if team.fingerprint != version.fingerprint:
            raise LibraryError(f"the body of {version.ref} in library {self.where} has been changed")
        return await self.load_blobs(team)

    async def find(self, ref: str) -> Version:
        """Find a version by name, `name@version` or fingerprint; raises LibraryError if none fits, or several teams."""
        name, at, version = ref.removeprefix(TEAM).partition("@")
        if at:
            return await self.version(name, version)
        if await self._get(("heads",), name) is not None:
            return await self.head(name)
        if not re.fullmatch(r"[0-9a-f]{6,16}", name):
            raise await self._missing_error(ref)
        versions = [self._version(item) for item in await self._all(("versions",))]
        matches = sorted((v for v in versions if v.fingerprint.startswith(name)), key=lambda v: v.age)
        prints = {v.fingerprint for v in matches}
        if len(prints) > 1:
            raise LibraryError(f"fingerprint {ref!r} is ambiguous; it begins {', '.join(sorted(prints))}")
        if not matches:
            raise await self._missing_error(ref)
        return matches[-1]

    async def history(self, name: str) -> History:
        """Read all versions of a team, with head, rollbacks and tags; raises LibraryError if there is none."""
        name = name.removeprefix(TEAM)
        head = await self._get(("heads",), name)
        if head is None:
            raise await self._missing_error(name)
        versions = [self._version(item) for item in await self._all(("versions", name))]
        rollbacks = await self._all(("rollbacks", name))
        return History(
            name=name,
            head=self._read(head, "version"),
            versions=tuple(sorted(versions, key=lambda v: v.age)),
            rollbacks=tuple(self._parse(i, "rollback", Rollback) for i in sorted(rollbacks, key=lambda item: item.key)),
            tags=await self.tags(name),
        )

    async def rollback(self, name: str, version: str) -> Version:
        """Move the head to a version, found as by `version`; the move is recorded, and nothing is deleted."""
        name = name.removeprefix(TEAM)
        head, target = await self.head(name), await self.version(name, version)
        if head.version == target.version:
            return target
        move = Rollback(source=head.version, target=target.version, at=_now())
        record = _put(("rollbacks", name), f"{move.at} {target.version}", {"rollback": move.model_dump(mode="json")})
        await self.store.abatch([record, _put(("heads",), name, {"version": target.version})])
        return target

    async def is_rolled_back(self, name: str, run: str) -> bool:
        """Whether a name was rolled back after a run began to save versions of it."""
        if await self._get(("heads",), name) is None:
            return False
        history = await self.history(name)
        own, last = [version for version in history.versions if version.run == run], history.rollbacks[-1:]
        if not own or not last or last[0].target != history.head:
            return False
        return own[0].saved < last[0].at and own[-1].version != history.head

    async def tag(self, name: str, version: str, tag: str) -> None:
        """Tag a version, found as by `version`; an existing tag moves. Raises ValueError if the tag is no `Id`."""
        name, target = name.removeprefix(TEAM), await self.version(name, version)
        await self.store.abatch([_put(("tags", name), _ID.validate_python(tag), {"version": target.version})])

    async def tags(self, name: str) -> dict[str, str]:
        """Map tags to versions."""
        return {item.key: self._read(item, "version") for item in await self._all(("tags", name))}

    def refuse_foreign_graph(
        self, team: Team, version: Version, ask: Callable[[str], bool] = lambda question: False
    ) -> None:
        """Refuse a team of a graph that another user has saved, before the graph's code is imported.

        Args:
            ask: puts the question to the user; False where nobody can answer.

        Raises:
            ConfigError: the user neither has saved the version nor agrees to the code of its team, or it is not here.
        """
        text = _describe_for_mark(version.name, version.run, version.step, team)
        if not is_graph(team.method) or is_own(text, version.mark):
            return
        origin = f"team {version.ref} in {self.where} is not known as saved by you"
        file = find_graph_file(team.method)
        if team.method not in GRAPHS and not Path(file).is_file():
            raise ConfigError(
                f"the graph {team.method} of team {version.ref} is not here: no file below {Path.cwd()} has it, nor "
                "does PYTHONPATH lead to it; work in the folder of the program"
            )
        found = f"{origin}, and names the code of the graph {team.method}{f' in {file}' if file else ''}"
        digest = hashlib.sha256(to_canonical_json([team.method, file]).encode()).hexdigest()
        place = f"{self.where}/{version.name}" if "://" in self.where else Path(self.where, version.name)
        if not is_agreed(place, digest, found, ask):
            agree = f"`selfwire show {version.ref} --trust{self._home_option}`"
            raise ConfigError(
                f"{found}; another user has saved it, or an older selfwire, or you with another config folder or with "
                f"the graph in another file; nothing of that was imported; if you trust it, say so: {agree}; or in "
                f"Python hand over the team that selfwire.load({version.ref!r}) gives"
            )

    @property
    def _home_option(self) -> str:
        if "://" in self.where:
            return "" if os.environ.get("SELFWIRE_LIBRARY") else format_home_option(self.where)
        return format_home_option(Path(self.where).parent)

    async def _get(self, namespace: tuple[str, ...], key: str) -> Item | None:
        item = await self.store.aget((_ROOT, *namespace), key) if all(map(is_id, namespace)) else None
        return None if item is None else self._check_schema(item)

    async def _all(self, namespace: tuple[str, ...]) -> list[SearchItem]:
        found: list[SearchItem] = []
        while True:
            page = await self.store.asearch((_ROOT, *namespace), limit=_PAGE, offset=len(found))
            found.extend(page)
            if len(page) < _PAGE:
                return [self._check_schema(item) for item in found]

    def _check_schema(self, item: AnyItem) -> AnyItem:
        value: Any = item.value
        if not isinstance(value, dict):
            raise LibraryError(f"entry {item.key!r} in library {self.where} is corrupt: it is no JSON object")
        schema = value.get("schema")
        if schema != SCHEMA:
            raise LibraryError(f"library {self.where} has an entry of schema {schema}; this selfwire reads {SCHEMA}")
        return item

    def _read(self, item: Item, field: str) -> str:
        if isinstance(value := item.value.get(field), str):
            return value
        raise LibraryError(f"entry {item.key!r} in library {self.where} is corrupt: it has no text {field!r}")

    def _version(self, item: Item) -> Version:
        return self._parse(item, "version", Version)

    def _parse(self, item: Item, field: str, schema: type[AnyEntry]) -> AnyEntry:
        try:
            return schema.model_validate(item.value[field])
        except (ValidationError, KeyError) as error:
            raise LibraryError(f"{field} {item.key!r} in library {self.where} is corrupt: {error}") from None

    async def _missing_error(self, ref: str) -> LibraryError:
        names = await self.names()
        close = get_close_matches(ref.removeprefix(TEAM).partition("@")[0], names, n=3, cutoff=0.6)
        saved = f"saved there are {', '.join(names[:12])}" if names else "nothing has been saved there yet"
        hint = f"did you mean {', '.join(close)}?" if close else saved
        return LibraryError(f"there is no team {ref!r} in library {self.where}; {hint}")


def _describe_for_mark(name: str, run: str, step: int, team: Team) -> str:
    """Write what the mark of a version covers: its place in the library, and the graph of its team with its file."""
    return to_canonical_json(["team", name, run, step, team.method, find_graph_file(team.method)])


@cache
def _tell_of_others(ref: str, newest: str, others: str) -> None:
    _log.warning("%s is the newest of several, %s; the others are %s", ref, newest, others)


@cache
def _warn_of_no_mark(folder: Path, agree: str) -> None:
    _log.warning(
        "%s can hold no key, so that this team of a graph has no mark of yours and is refused where it is asked; "
        "set %s to a folder of yours, then agree with `%s`; or in Python hand over the team",
        folder,
        CONFIG_HOME,
        agree,
    )


def open_library(home: Path | str | None = None, *, create: bool = True, snapshot: bool = False) -> Library:
    """Open saved teams.

    Args:
        home: folder of `library.sqlite`, unless SELFWIRE_LIBRARY names a `postgres://` address; such an address;
            ":memory:"; or None for SELFWIRE_HOME, else `.selfwire` in the working directory.
        create: whether to create a missing file; if not, a missing file is an empty library.
        snapshot: whether to read an existing file without a lock; see `open_snapshot`.
    """
    if home == ":memory:":
        return Library(InMemoryStore())
    address = home if "://" in str(home) else os.environ.get("SELFWIRE_LIBRARY")
    if address:
        store = open_postgres(str(address))
        return Library(store, store.where)
    path = home_folder(home) / LIBRARY_FILE
    if not create and not path.exists():
        return Library(InMemoryStore(), str(path))
    return Library(open_snapshot(path) if snapshot else open_sqlite(path), str(path))


def _put(namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> PutOp:
    return PutOp((_ROOT, *namespace), key, {"schema": SCHEMA, **to_plain_json(value)})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
