"""Who may read the pages that are served."""

import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.core.errors import ConfigError
from selfwire.report.view.access import Access
from selfwire.report.view.server import ViewServer
from tests.report.test_view import TOKEN, ask, serving


def test_another_name_is_refused_as_a_page_of_another_site_may_lead_its_own_here(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        port = server.server_port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
            assert ask(server, Host=host).status == 200, host
        for host in (
            f"evil.example:{port}",
            "evil.example",
            f"127.0.0.1.evil.example:{port}",
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
