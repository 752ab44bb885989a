"""Bytes that workflows refer to by hash, such as a router's weights.

A workflow's memory is JSON and holds `sha256:...` instead of large bytes. This process keeps the bytes that it made or
read; the library stores them beside the versions that refer to them and reads them back. History, rollback and forks
do not depend on them.
"""

import base64
import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

from selfwire.core.errors import LibraryError

REFERENCE = re.compile(r"sha256:[0-9a-f]{64}")
KEPT = 8
"""How many blobs stay in memory, whatever their size; of the others the longest unused go first."""
KEPT_BYTES = 2**27
"""Bytes up to which more blobs stay: weights with their optimiser have megabytes, and a training makes many."""

_kept: OrderedDict[str, bytes] = OrderedDict()
_lock = Lock()


def put_blob(data: bytes) -> str:
    """Keep bytes in this process and return the reference to them."""
    reference = compute_blob_reference(data)
    with _lock:
        _kept[reference] = data
        _kept.move_to_end(reference)
        while len(_kept) > KEPT and sum(map(len, _kept.values())) > KEPT_BYTES:
            _kept.popitem(last=False)
    return reference


def get_blob(reference: str) -> bytes:
    """The bytes of a reference; raises LibraryError if they are not in this process."""
    found = find_blob(reference)
    if found is None:
        raise LibraryError(f"the bytes {reference[:19]}... are not loaded; load the workflow from its library")
    return found


def find_blob(reference: str) -> bytes | None:
    """The bytes of a reference; None if they are not in this process."""
    with _lock:
        if reference in _kept:
            _kept.move_to_end(reference)
        return _kept.get(reference)


def encode_blob(reference: str) -> str:
    """The bytes of a reference as text; raises LibraryError if they are not in this process."""
    return base64.b64encode(get_blob(reference)).decode()


def load_blob(reference: str, text: str) -> None:
    """Keep bytes in this process that `encode_blob` has made text of; raises ValueError if they are others."""
    data = base64.b64decode(text, validate=True)
    if compute_blob_reference(data) != reference:
        raise ValueError(f"these are not the bytes {reference[:19]}...")
    put_blob(data)


def compute_blob_reference(data: bytes) -> str:
    """`sha256:` and the hash of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def find_blob_references(memory: Any) -> tuple[str, ...]:
    """All references in a JSON value, in order, each once."""
    return tuple(dict.fromkeys(_iterate_references(memory)))


def _iterate_references(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if REFERENCE.fullmatch(value):
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _iterate_references(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _iterate_references(one)
