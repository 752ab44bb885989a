"""The keys under which a journal stores calls and bodies."""

import hashlib
from typing import Any, Literal

from selfwire.core.scope import Scope
from selfwire.core.values import to_canonical_json

Kind = Literal["model", "tool", "environment"]


def make_key(kind: Kind, scope: Scope, request: Any, attempt: int = 0, anywhere: bool = False) -> tuple[str, str]:
    """The key of a call, and the hash of its request; `anywhere` keeps of the place the run and what seeds models."""
    if anywhere:
        scope = Scope(run=scope.run, seed=scope.seed, sample=scope.sample)
    digest = hashlib.sha256(to_canonical_json(request).encode()).hexdigest()[:32]
    return hashlib.sha256(f"{kind}\n{scope.key}\n{digest}\n{attempt}".encode()).hexdigest()[:32], digest


def hash_body(text: str) -> str:
    """The hash under which a body's JSON text is stored."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
