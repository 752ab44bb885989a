"""Access to the pages: for programs of this machine, or for requests with the token."""

import hmac
import ipaddress
import re
import secrets
import socket
from email.message import Message

from selfwire.core.errors import ConfigError

LEAST = 16
"""Characters of a token at least, as anybody in the network may try to guess it."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:@/\s]+))(?::\d{0,5})?")
"""A name or an address, and a port; the address may be one of IPv6, in brackets."""


def find_address(host: str, token: str) -> str:
    """The address to listen at.

    Raises:
        ConfigError: there is no such host, it can be reached from other machines and there is no token, or the token
            is too short.
    """
    try:
        address = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise ConfigError(f"there is no address of host {host!r}: {error.strerror}; give one of this machine") from None
    if token and len(token) < LEAST:
        raise ConfigError(f"the token has {len(token)} characters; give one of {LEAST} or more, which nobody guesses")
    if not token and not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        raise ConfigError(
            f"{host} can be reached from other machines, and pages hold all that the runs have said and read; "
            "set SELFWIRE_VIEW_TOKEN (or --token) to a secret that readers must know, or leave --host away"
        )
    return address


class Access:
    """Decides on requests.

    Args:
        host: as it was given to listen at.
        token: that readers must know; "" if none.
        port: at which the server listens.
    """

    def __init__(self, host: str, token: str, port: int) -> None:
        self._names = {*_LOCAL, host.lower(), socket.gethostname().lower()} if token else {*_LOCAL, host.lower()}
        self._token = token.encode()
        self._session = secrets.token_urlsafe()
        self._cookie = f"selfwire-{port}"  # cookies are shared by the ports of a host

    def allows_host(self, header: str) -> bool:
        """Whether a request's Host is a name of this server.

        A page of another site can have its own name lead here; the browser then sends that name. An address cannot be
        led elsewhere.
        """
        found = _HOST.fullmatch(header)
        name = (found["address"] or found["name"]).lower() if found else ""
        return name in self._names or (bool(self._token) and _is_address(name))

    def allows(self, headers: Message) -> bool:
        """Whether a request carries the token; names of headers may be written in any case."""
        if not self._token:
            return True
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        return (scheme.lower() == "bearer" and self.is_token(given.strip())) or self._has_session(headers)

    def is_token(self, given: str) -> bool:
        """Whether it is the token; takes as long for one that is nearly right."""
        return bool(self._token) and hmac.compare_digest(given.encode(errors="replace"), self._token)

    def make_cookie(self) -> str:
        """A cookie that stands for the token until the server ends."""
        return f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def _has_session(self, headers: Message) -> bool:
        # other programs of this machine set cookies too, with characters at which the standard library's parser stops
        parts = "; ".join(headers.get_all("Cookie", [])).split(";")
        cookies = [part.strip().partition("=") for part in parts]
        session = self._session.encode()
        return any(
            name == self._cookie and hmac.compare_digest(value.strip('"').encode(errors="replace"), session)
            for name, _, value in cookies
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
