"""Addresses of servers: what is stored of them holds no secrets, which come from this process or its environment."""

import os

from selfwire.core.errors import ConfigError
from selfwire.core.secrets import MASK, mask_address

ADDRESS = "SELFWIRE_BASE_URL"
"""Environment variable with the whole address of a server, for runs whose address had secrets."""

_whole: dict[str, str] = {}


def keep_address(address: str) -> str:
    """The address as it may be stored; this process remembers the whole one."""
    masked = mask_address(address)
    if masked != address:
        _whole[masked] = address
    return masked


def find_address(stored: str) -> str:
    """The whole address of a stored one.

    Raises:
        ConfigError: it had secrets, and neither this process nor the environment knows them.
    """
    if MASK not in stored or stored in _whole:
        return _whole.get(stored, stored)
    given = os.environ.get(ADDRESS, "")
    if mask_address(given) == stored:
        return given
    what = f"; {mask_address(given)} is another one" if given else ""
    raise ConfigError(f"the secrets of the address {stored} are not stored{what}; set {ADDRESS} to the whole address")
