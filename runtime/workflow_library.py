"""Saved workflows over a LangGraph store: immutable versions, a head per name, history, diff, rollback, tags.

A version is keyed by (run, step): a resumed run writes the same keys, and two runs never share one, so no
compare-and-set is needed. Bodies are stored once per fingerprint; versions hold facts and lineage. Rollbacks move
the head and are recorded under their own keys.

Namespaces: (selfwire, bodies) by fingerprint; (selfwire, versions, name) by "run.step"; (selfwire, heads) by name;
(selfwire, rollbacks, name) by time; (selfwire, tags, name) by tag; (selfwire, blobs) by hash, see `blobs`.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, TypeVar

from langgraph.store.base import BaseStore, Item, PutOp, SearchItem
from langgraph.store.memory import InMemoryStore
from pydantic import TypeAdapter, ValidationError

from selfwire.core.errors import LibraryError
from selfwire.core.values import Id, to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.core.workflow_diff import WorkflowDiff, diff_workflows
from selfwire.runtime.blobs import encode_blob, find_blob, find_blob_references, load_blob
from selfwire.runtime.exports import read_workflow
from selfwire.runtime.storage import SCHEMA, ThreadedStore, home_folder, open_postgres, open_snapshot, open_sqlite
from selfwire.runtime.versions import History, Rollback, Version

LIBRARY_FILE = "library.sqlite"
TEAM = "team:"
"""May begin a reference, to say that a saved team is meant where something else has the same name."""
_ROOT = "selfwire"
_PAGE = 500
_ID: TypeAdapter[str] = TypeAdapter(Id)

AnyItem = TypeVar("AnyItem", bound=Item)


class WorkflowLibrary:
    """Saved workflows in any LangGraph store, reached through its async interface only; `where` is for messages."""

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
        workflow: Workflow,
        *,
        run: str,
        step: int,
        facts: Mapping[str, Any] | None = None,
        beside: bool = False,
    ) -> Version:
        """Save a version and move the head to it.

        A head that is there stays if the version is to stand `beside` it, or `facts["accepted"]` is False.

        Saving the same workflow at the same (run, step) again changes nothing and returns the first version.

        Another one raises a LibraryError; names, steps and facts (finite JSON) that do not validate a ValueError.
        """
        version = Version(
            name=name,
            run=run,
            step=step,
            fingerprint=workflow.fingerprint,
            saved=_now(),
            facts=dict(facts or {}),
            lineage=workflow.lineage,
        )
        if item := await self._get(("versions", name), version.version):
            existing = self._version(item)
            if existing.fingerprint != version.fingerprint:
                raise LibraryError(
                    f"{existing.ref} holds workflow {existing.fingerprint} already, not {version.fingerprint}; "
                    "versions never change: save under another run or step"
                )
            return existing
        head = await self._get(("heads",), name)
        blobs = await self._new_blobs(workflow)
        body = workflow.model_dump(mode="json", exclude={"lineage"})
        writes = [
            *blobs,
            _put(("bodies",), version.fingerprint, {"workflow": body}),
            _put(("versions", name), version.version, {"version": version.model_dump(mode="json")}),
        ]
        if head is None or not (beside or version.facts.get("accepted") is False):
            writes.append(_put(("heads",), name, {"version": version.version}))
        await self.store.abatch(writes)
        return version

    async def keep(self, workflow: Workflow) -> None:
        """Store the bytes to which a workflow without a version refers; raises LibraryError if they are not here."""
        await self.store.abatch(await self._new_blobs(workflow))

    async def _new_blobs(self, workflow: Workflow) -> list[PutOp]:
        writes = []
        for reference in find_blob_references(workflow.memory):
            if await self._get(("blobs",), reference) is None:
                if find_blob(reference) is None:
                    raise LibraryError(
                        f"workflow {workflow.fingerprint} refers to {reference[:19]}..., which is not loaded"
                    )
                writes.append(_put(("blobs",), reference, {"base64": encode_blob(reference)}))
        return writes

    async def fetch(self, workflow: Workflow) -> Workflow:
        """Load the bytes to which a workflow refers, and return it; raises LibraryError if they are not as saved."""
        for reference in find_blob_references(workflow.memory):
            if find_blob(reference) is None:
                item = await self._get(("blobs",), reference)
                try:
                    load_blob(reference, item.value.get("base64", "") if item else "")
                except (ValueError, TypeError):
                    fault = "have been changed" if item else "are missing"
                    raise LibraryError(f"the bytes {reference[:19]}... {fault} in library {self.where}") from None
        return workflow

    async def names(self) -> tuple[str, ...]:
        """Names of the saved workflows, sorted."""
        return tuple(sorted(item.key for item in await self._all(("heads",))))

    async def head(self, name: str) -> Version:
        """The version that `load(name)` gives; raises LibraryError if there is no such workflow."""
        name = name.removeprefix(TEAM)
        item = await self._get(("heads",), name)
        if item is None:
            raise await self._missing_error(name)
        return await self.version(name, self._read(item, "version"))

    async def version(self, name: str, version: str) -> Version:
        """The version called `run.step`, a tag, or a step or run; raises LibraryError if none or several match."""
        name = name.removeprefix(TEAM)
        if _is_id(name):
            item = await self._get(("versions", name), version)
            if item is not None:
                return self._version(item)
        history = await self.history(name)
        wanted = history.tags.get(version, version)
        matches = [v for v in history.versions if wanted in (v.version, v.run, str(v.step), v.fingerprint)]
        if len(matches) == 1:
            return matches[0]
        known = ", ".join(v.version for v in (matches or history.versions)[-12:])
        trouble = "is ambiguous" if matches else "does not exist"
        raise LibraryError(f"version {version!r} of workflow {name!r} {trouble}; choose among {known}")

    async def load(self, ref: str) -> Workflow:
        """Load by name, `name@version`, fingerprint (a unique prefix of 6 or more digits) or exported JSON file.

        `team:name` means the same as `name`, here and wherever the library takes a name.
        """
        if ref.endswith(".json"):
            return await asyncio.to_thread(read_workflow, Path(ref))
        version = await self.find(ref)
        item = await self._get(("bodies",), version.fingerprint)
        if item is None:
            raise LibraryError(f"the body of {version.ref} is missing from library {self.where}")
        try:
            workflow = Workflow(**item.value["workflow"], lineage=version.lineage)
        except (ValidationError, KeyError, TypeError, RecursionError) as error:
            raise LibraryError(f"the body of {version.ref} in library {self.where} is corrupt: {error}") from None
        if workflow.fingerprint != version.fingerprint:
            raise LibraryError(f"the body of {version.ref} in library {self.where} has been changed")
        return await self.fetch(workflow)

    async def find(self, ref: str) -> Version:
        """The version of a name, `name@version` or fingerprint; raises LibraryError if none or several match."""
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
        """All versions of a workflow, with head, rollbacks and tags; raises LibraryError if there is none."""
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
            rollbacks=tuple(map(self._rollback, sorted(rollbacks, key=lambda item: item.key))),
            tags=await self.tags(name),
        )

    async def diff(self, before: str, after: str) -> WorkflowDiff:
        """The difference between two workflows, each named and read as by `load`."""
        return diff_workflows(await self.load(before), await self.load(after))

    async def rollback(self, name: str, version: str) -> Version:
        """Move the head to a version, named and checked as by `version`; nothing is deleted, the move is recorded."""
        name = name.removeprefix(TEAM)
        head, target = await self.head(name), await self.version(name, version)
        if head.version == target.version:
            return target
        move = Rollback(source=head.version, target=target.version, at=_now())
        record = _put(("rollbacks", name), f"{move.at} {target.version}", {"rollback": move.model_dump(mode="json")})
        await self.store.abatch([record, _put(("heads",), name, {"version": target.version})])
        return target

    async def tag(self, name: str, version: str, tag: str) -> None:
        """Tag a version, as by `version`; a tag that exists moves. Raises ValueError if the tag is no `Id`."""
        name, target = name.removeprefix(TEAM), await self.version(name, version)
        await self.store.abatch([_put(("tags", name), _ID.validate_python(tag), {"version": target.version})])

    async def tags(self, name: str) -> dict[str, str]:
        """Versions by tag."""
        return {item.key: self._read(item, "version") for item in await self._all(("tags", name))}

    async def _get(self, namespace: tuple[str, ...], key: str) -> Item | None:
        item = await self.store.aget((_ROOT, *namespace), key) if all(map(_is_id, namespace)) else None
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

    def _rollback(self, item: Item) -> Rollback:
        try:
            return Rollback.model_validate(item.value["rollback"])
        except (ValidationError, KeyError) as error:
            raise LibraryError(f"rollback {item.key!r} in library {self.where} is corrupt: {error}") from None

    def _version(self, item: Item) -> Version:
        try:
            return Version.model_validate(item.value["version"])
        except (ValidationError, KeyError) as error:
            raise LibraryError(f"version {item.key!r} in library {self.where} is corrupt: {error}") from None

    async def _missing_error(self, ref: str) -> LibraryError:
        names = await self.names()
        close = get_close_matches(ref.removeprefix(TEAM).partition("@")[0], names, n=5, cutoff=0.4) or list(names[:12])
        hint = f"did you mean {', '.join(close)}?" if close else "nothing has been saved there yet"
        return LibraryError(f"there is no workflow {ref!r} in library {self.where}; {hint}")


def open_library(home: Path | str | None = None, *, create: bool = True, snapshot: bool = False) -> WorkflowLibrary:
    """Open saved workflows.

    Args:
        home: folder of `library.sqlite`, unless SELFWIRE_LIBRARY names a `postgres://` address; such an address;
            ":memory:"; or None for SELFWIRE_HOME, else `.selfwire` in the working directory.
        create: whether to create a missing file; if not, a missing file is an empty library.
        snapshot: whether to read a file that exists without a lock, so that nobody waits for it; see `open_snapshot`.
    """
    if home == ":memory:":
        return WorkflowLibrary(InMemoryStore())
    address = home if "://" in str(home) else os.environ.get("SELFWIRE_LIBRARY")
    if address:
        store = open_postgres(str(address))
        return WorkflowLibrary(store, store.where)
    path = home_folder(home) / LIBRARY_FILE
    if not create and not path.exists():
        return WorkflowLibrary(InMemoryStore(), str(path))
    return WorkflowLibrary(open_snapshot(path) if snapshot else open_sqlite(path), str(path))


def _put(namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> PutOp:
    return PutOp((_ROOT, *namespace), key, {"schema": SCHEMA, **to_plain_json(value)})


def _is_id(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", text) is not None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
