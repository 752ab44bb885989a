"""Serves the pages of a home with the standard library, as few people read at once and no dependency is needed.

Every open page has a connection on which it is told of changes (server-sent events), and so a thread.
"""

import errno
import hmac
import ipaddress
import json
import re
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from selfwire.core.errors import ConfigError, SelfwireError
from selfwire.extras.pages.page import make_environment
from selfwire.extras.pages.view.site import Site, describe_live

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


PORT = 8747
POLL = 0.5
"""Seconds between two looks at the files of a run whose page is open."""
BEAT = 15.0
"""Seconds after which an open page that nothing is told hears that the server is there."""
READERS = 64
"""Pages that may be open at once."""
CONNECTIONS = 128
"""Connections at once; beyond that the one that waits longest for a request is closed."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest stands in the page, with the hashes of its scripts
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SLASHES = "/\\"
"""Characters that browsers take for a slash; two at the beginning of a path would be another host."""
_STAMP = 'data-stamp=""'
_ASK = (
    "This needs the token that the server was started with: add ?token=... to the address once, "
    "or send it as Authorization: Bearer."
)


class ViewServer(ThreadingHTTPServer):
    """Serves a home until it is closed.

    Raises:
        ConfigError: the extra is missing, the address cannot be listened at, or may not without a token.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS  # with the standard library's five a reader among many waits for seconds

    def __init__(self, home: str | Path | None, *, port: int = PORT, host: str = "127.0.0.1", token: str = "") -> None:
        make_environment()
        self.site = Site(home)
        self.is_closing = threading.Event()
        self.readers = threading.BoundedSemaphore(READERS)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._waiting: dict[socket.socket, None] = {}
        address = find_address(host, token)
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            super().__init__((address, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(_explain_port(host, port, error)) from None
        self.access = Access(host, token, self.server_port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind without asking for the machine's name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def server_close(self) -> None:
        """Close, and end what is told to open pages."""
        self.is_closing.set()
        super().server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; where that fails, as without file descriptors, wait before it is tried again."""
        try:
            return super().get_request()
        except OSError:
            self.is_closing.wait(POLL)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; beyond `CONNECTIONS` close one that waits for a request, or else this one."""
        with self._lock:
            is_full = len(self._open) >= CONNECTIONS
            idle = next(iter(self._waiting), None) if is_full else None
            if idle:
                self._forget(idle)
            self._open.add(request)
            self._waiting[request] = None
        if idle:
            with suppress(OSError):
                idle.shutdown(socket.SHUT_RDWR)  # its thread reads the end of it
        if is_full and not idle:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._forget(request)
        super().shutdown_request(request)

    def note_request(self, connection: socket.socket, *, is_read: bool) -> None:
        """Note that a whole request has been read from a connection, or that it waits for another."""
        with self._lock:
            self._waiting.pop(connection, None)
            if not is_read and connection in self._open:
                self._waiting[connection] = None

    def _forget(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what kind of fault a request met, but not what it asked for, as a token may be in that."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"a page could not be served: {type(error).__name__}", file=sys.stderr)  # noqa: T201


def _explain_port(host: str, port: int, error: Exception) -> str:
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return f"port {port} is in use; choose another with --port, or --port 0 for one that is free"
    return f"{host}:{port} cannot be listened at: {getattr(error, 'strerror', None) or error}; choose another address"


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer, and close the connection after a request with a body, which is not read."""
        if self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0").strip() != "0":
            self.close_connection = True
        self.server.note_request(self.connection, is_read=True)
        try:
            self._answer_or_refuse()
        finally:
            self.server.note_request(self.connection, is_read=False)

    def _answer_or_refuse(self) -> None:
        try:
            asked = urlsplit(self.path)
        except ValueError:
            self._say(HTTPStatus.BAD_REQUEST, "This is no address.")
            return
        if not self.server.access.allows_host(self.headers.get("Host", "")):
            self._say(HTTPStatus.FORBIDDEN, "This server has another name; use the address that it printed.")
            return
        query = dict(parse_qsl(asked.query))
        if "token" in query:
            self._log_in(asked.path, query)
        elif not self.server.access.allows(self.headers):
            self._say(HTTPStatus.UNAUTHORIZED, _ASK, {"WWW-Authenticate": "Bearer"})
        else:
            self._answer(asked.path, query)

    def _log_in(self, path: str, query: dict[str, str]) -> None:
        """Give who knows the token a cookie, and take the token out of the address."""
        if not self.server.access.is_token(query.pop("token")):
            self._say(HTTPStatus.FORBIDDEN, "This is not the token that the server was started with.")
            return
        rest = f"?{urlencode(query)}" if query else ""
        place = f"/{quote(path.lstrip(SLASHES), safe='/%')}{rest}"
        self._say(HTTPStatus.SEE_OTHER, "", {"Location": place, "Set-Cookie": self.server.access.make_cookie()})

    def _answer(self, path: str, query: dict[str, str]) -> None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            match parts:
                case [""]:
                    self._send_page(*self._look(""))
                case ["events"]:
                    self._tell("", query.get("stamp", ""))
                case ["runs", run]:
                    self._send_page(*self._look(run))
                case ["runs", run, "events"]:
                    self._tell(run, query.get("stamp", ""))
                case ["favicon.ico"]:
                    self._say(HTTPStatus.NO_CONTENT, "")
                case _:
                    self._say(HTTPStatus.NOT_FOUND, "There is no such page; / lists all runs.")
        except SelfwireError as error:
            self._say(HTTPStatus.NOT_FOUND, str(error))

    def _look(self, run: str) -> tuple[str, str, dict[str, object]]:
        """Text and stamp of a page, and what its line shows; of the list where no run is named."""
        if not run:
            page = self.server.site.get_index()
            return page.text, page.stamp, {"fault": page.fault}
        page, progress = self.server.site.get_run(run)
        return page.text, page.stamp, describe_live(page, progress)

    def _send_page(self, text: str, stamp: str, _: object) -> None:
        self._send(HTTPStatus.OK, text.replace(_STAMP, f'data-stamp="{stamp}"', 1), "text/html; charset=utf-8")

    def _tell(self, run: str, stamp: str) -> None:
        """Tell an open page what its line shows, and when there is another page than the one with that stamp."""
        self._look(run)  # an error is an answer of its own
        if not self.server.readers.acquire(blocking=False):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, f"{READERS} pages are open already; close some.")
            return
        try:
            self.close_connection = True
            self._begin(HTTPStatus.OK, {"Content-Type": "text/event-stream", "Connection": "close"})
            for said in self._list_news(run, stamp):
                self.wfile.write(said.encode())
        finally:
            self.server.readers.release()

    def _list_news(self, run: str, stamp: str) -> Iterator[str]:
        """Send news to a page while it is open."""
        told: dict[str, object] | None = None
        silent = 0.0
        while True:
            try:
                _, now, line = self._look(run)
            except SelfwireError as error:  # the run was removed
                now, line = stamp, {"fault": str(error)}
            if line != told:
                told, silent = line, 0.0
                yield f"event: line\ndata: {json.dumps(line)}\n\n"
            if now != stamp:
                stamp, silent = now, 0.0
                yield f"event: page\ndata: {stamp}\n\n"
            if silent >= BEAT:
                silent = 0.0
                yield ": here\n\n"
            if self.server.is_closing.wait(POLL) or self._is_reader_gone():
                return
            silent += POLL

    def _is_reader_gone(self) -> bool:
        """Whether the other side has closed the connection."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(self.timeout)

    def _say(self, status: HTTPStatus, text: str, more: dict[str, str] | None = None) -> None:
        self._send(status, f"{text}\n" if text else "", "text/plain; charset=utf-8", more)

    def _send(self, status: HTTPStatus, text: str, kind: str, more: dict[str, str] | None = None) -> None:
        body = text.encode(errors="replace")
        self._begin(status, {"Content-Type": kind, "Content-Length": str(len(body)), **(more or {})})
        self.wfile.write(body)

    def _begin(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        closing = {"Connection": "close"} if self.close_connection else {}
        for name, value in {**_HEADERS, **closing, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is none; only GET is answered otherwise."""
        self.close_connection = True
        refused = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if refused else HTTPStatus(code)
        self._say(status, status.phrase, {"Connection": "close", **({"Allow": "GET"} if refused else {})})

    def version_string(self) -> str:
        """The server's name, without versions."""
        return "selfwire"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: an address may hold the token."""
