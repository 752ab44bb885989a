"""Secrets that this process knows by value, so that no text that is kept or shown contains them."""

import os
import re
from collections.abc import Iterator
from urllib.parse import unquote

LEAST = 8
"""Least characters of a secret; shorter keys are placeholders for local servers."""
LEAST_IN_ADDRESS = 4
MASK = "***"

_USER = re.compile(r"(?<=//)[^/?#\s]+(?=@)")
_SECRET_NAMES = "key|token|secret|passw|pwd|sig|auth|credential"
_QUERY = re.compile(rf"([?&;][^=&;#\s]*(?:{_SECRET_NAMES})[^=&;#\s]*=)([^&;#\s]+)", re.IGNORECASE)
_VARIABLE = re.compile(r"(_|^)(API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY)(_|$)", re.IGNORECASE)

_known: set[str] = set()


def register_secret(value: str, least: int = LEAST) -> None:
    """Mask a value from now on, unless it is too short to be told from other text."""
    if len(value) >= least:
        _known.add(value)


def mask_address(address: str) -> str:
    """An address without its user, password and secret parameters, which are masked in all texts from now on."""
    for secret in _list_secrets(address):
        register_secret(secret, LEAST_IN_ADDRESS)
        register_secret(unquote(secret), LEAST_IN_ADDRESS)
    return _QUERY.sub(rf"\1{MASK}", _USER.sub(MASK, address))


def _list_secrets(address: str) -> Iterator[str]:
    for user in _USER.findall(address):
        yield user
        yield user.partition(":")[2] or user
    for _, value in _QUERY.findall(address):
        yield value


def mask_secrets(text: str) -> str:
    """A text without the secrets that are known: those registered, and those in environment variables."""
    secrets = _known | {value for name, value in os.environ.items() if len(value) >= LEAST and _VARIABLE.search(name)}
    for secret in sorted(secrets, key=len, reverse=True):
        if secret in text:
            edge = r"(?<![A-Za-z0-9])" if len(secret) < LEAST else ""
            text = re.sub(edge + re.escape(secret) + edge.replace("<", ""), MASK, text)
    return text
