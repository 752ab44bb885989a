"""Who may read the pages that are served."""

import os
import socket
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.core.errors import ConfigError
from selfwire.extras.pages.view.server import CONNECTIONS, READERS, Access, ViewServer
from tests.extras.pages.test_view import TOKEN, ask, serving


def test_another_name_is_refused_as_a_page_of_another_site_may_lead_its_own_here(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        port = server.server_port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
            assert ask(server, Host=host).status == 200, host
        for host in (
            f"evil.example:{port}",
            "evil.example",
            f"127.0.0.1.evil.example:{port}",
            f"evil.example@127.0.0.1:{port}",
            f"[::1].evil.example:{port}",
            f"127.0.0.1:{port}:80",
            f"10.0.0.1:{port}",
            "",
            "[",
            "a@b",
        ):
            assert ask(server, Host=host).status == 403, host


def test_only_get_is_answered_and_no_other_site_may_read_or_frame(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            refused = ask(server, method=method)
            assert (refused.status, refused.headers["Allow"]) == (405, "GET")
        headers = ask(server, Origin="https://evil.example").headers
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


def test_with_a_token_only_who_knows_it_may_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, token=TOKEN) as server:
        assert ask(server).status == 401
        assert ask(server, Authorization=f"Bearer {TOKEN[:-1]}").status == 401
        assert ask(server, "/?token=wrong").status == 403
        assert ask(server, Authorization=f"Bearer {TOKEN}").status == 200
        entered = ask(server, f"//evil.example/?token={TOKEN.replace(' ', '+')}&stamp=1")
        assert (entered.status, entered.headers["Location"]) == (303, "/evil.example/?stamp=1")
        cookie, *flags = entered.headers["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(flags)
        assert TOKEN not in cookie
        assert ask(server, Cookie=cookie).status == 200
        assert ask(server, Cookie=f"{cookie}x").status == 401
        assert ask(server, "/favicon.ico").status == 401
        assert ask(server, Host=f"192.168.0.9:{server.server_port}", Cookie=cookie).status == 200
        assert ask(server, Host="evil.example", Cookie=cookie).status == 403
    assert TOKEN not in "".join(capfd.readouterr())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_another_address_than_loopback_needs_a_token_that_nobody_guesses(tmp_path: Path, host: str) -> None:
    for token, said in (("", "can be reached from other machines"), ("short", "5 characters; give one of 16")):
        with pytest.raises(ConfigError, match=said):
            ViewServer(tmp_path, port=0, host=host, token=token)


def test_a_name_of_this_machine_is_allowed_where_there_is_a_token() -> None:
    assert Access("0.0.0.0", TOKEN, 1).allows_host(f"{socket.gethostname()}:1")
    assert not Access("127.0.0.1", "", 1).allows_host("evil.example")
    assert not Access("127.0.0.1", "", 1).is_token("")


def test_what_cannot_be_listened_at_is_an_error_in_words(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        command = ["view", "--home", str(tmp_path), "--port", str(server.server_port)]
        result = CliRunner().invoke(build(), command)
        assert (result.exit_code, "is in use; choose another with --port" in result.output) == (2, True)
    result = CliRunner().invoke(build(), ["view", "--home", str(tmp_path), "--host", "no such host"])
    assert (result.exit_code, "there is no address of host" in result.output) == (2, True)
    result = CliRunner().invoke(build(), ["view", "--home", "postgres://db/x"])
    assert (result.exit_code, "runs lie in a folder" in result.output) == (2, True)


def test_ctrl_c_ends_it_quietly_and_the_token_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press_ctrl_c(server: ViewServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ViewServer, "serve_forever", press_ctrl_c)
    monkeypatch.setattr(os, "nice", lambda more: more)
    command = ["view", "--home", str(tmp_path), "--port", "0", "--json"]
    result = CliRunner().invoke(build(), command, env={"SELFWIRE_VIEW_TOKEN": TOKEN})
    assert result.exit_code == 0
    assert '"address": "http://127.0.0.1:' in result.stdout
    assert "stopped" not in result.output
    assert TOKEN not in result.output


def exchange(server: ViewServer, *lines: str, body: str = "") -> str:
    """Send a request line by line, and read until the server closes or is silent."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall(("\r\n".join([*lines, "", ""]) + body).encode())
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except TimeoutError:
            found += b"(still open)"
    return found.decode()


def test_names_of_headers_are_read_in_any_case_and_cookies_of_other_programs_are_passed_over(tmp_path: Path) -> None:
    with serving(tmp_path, token=TOKEN) as server:
        get, here = ("GET / HTTP/1.1", "Connection: close"), f"127.0.0.1:{server.server_port}"
        assert "200 OK" in exchange(server, *get, f"host: {here}", f"authorization: bearer {TOKEN}")
        cookie = ask(server, f"/?token={TOKEN.replace(' ', '+')}").headers["Set-Cookie"].partition(";")[0]
        assert "200 OK" in exchange(server, *get, f"host: {here}", f"cookie: {cookie}")
        for other in ('x={"a":1}', "a[b]=@:", "=", "\u00e4=\u00f6", f"{cookie}x"):
            asked = exchange(server, *get, f"Host: {here}", f"Cookie: {other}; {cookie}")
            assert "200 OK" in asked, other
        split = exchange(server, *get, f"Host: {here}", "Cookie: a=b", f"Cookie: {cookie}")
        assert "200 OK" in split
        assert "401" in exchange(server, *get, f"Host: {here}", f"Cookie: x={cookie}")


@pytest.mark.parametrize("path", [r"/\evil.com/", r"\\evil.com/", r"//\evil.com/", r"/\/evil.com/"])
def test_entering_leads_to_no_other_host(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, token=TOKEN) as server:
        entered = exchange(
            server,
            f"GET {path}?token={TOKEN.replace(' ', '+')} HTTP/1.1",
            f"Host: 127.0.0.1:{server.server_port}",
            "Connection: close",
        )
    assert "\r\nLocation: /evil.com/\r\n" in entered


@pytest.mark.parametrize("header", ["Content-Length: {}", "Transfer-Encoding: chunked"])
def test_a_body_is_not_taken_for_another_request(tmp_path: Path, header: str) -> None:
    with serving(tmp_path) as server:
        here = f"Host: 127.0.0.1:{server.server_port}"
        body = f"GET /smuggled HTTP/1.1\r\n{here}\r\n\r\n"
        found = exchange(server, "GET / HTTP/1.1", here, header.format(len(body)), body=body)
        assert found.count("HTTP/1.1 ") == 1
        assert "\r\nConnection: close\r\n" in found
        assert "still open" not in found


def test_an_address_that_is_none_gets_an_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert "400 Bad Request" in exchange(server, "GET http://[::1 HTTP/1.1", "Host: localhost", "Connection: close")


def test_half_requests_take_nobodys_place_and_those_that_wait_longest_are_closed(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        halves = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(CONNECTIONS + 20)]
        try:
            for half in halves:
                half.sendall(b"GET / HT")
            assert ask(server).status == 200
            halves[0].settimeout(10)
            assert halves[0].recv(1) == b""
            assert len(server._open) <= CONNECTIONS
        finally:
            for half in halves:
                half.close()


def test_readers_that_are_gone_give_their_places_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.extras.pages.view.server.POLL", 0.05)
    with serving(tmp_path) as server:
        for _ in range(READERS):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as reader:
                asked = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n"
                reader.sendall(asked.encode())
                assert b"200 OK" in reader.recv(64)
        deadline = time.monotonic() + 60
        while server.readers._value < READERS and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.readers._value == READERS
