"""A local Hugging Face Hub with data sets, for the Hub's own client."""

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

Files = Mapping[str, bytes]


class HubServer:
    """Serves revisions of data sets: files by path, by revision, by repository.

    Attributes:
        asked: requests as they came in.
        refuses: status and error code of data sets that are not shown.
    """

    def __init__(self, datasets: Mapping[str, Mapping[str, Files]]) -> None:
        self.datasets, self.asked = datasets, list[str]()
        self.refuses: dict[str, tuple[int, str]] = {}
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked.append(f"{self.command} {unquote(self.path)}")
                status, headers, body = served.answer(unquote(urlsplit(self.path).path))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def point_client_here(self, monkeypatch: pytest.MonkeyPatch, cache: str) -> None:
        """Let the client, which reads the environment once, ask this server and keep its files there."""
        monkeypatch.setattr(constants, "ENDPOINT", self.url)
        template = self.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        missing = 404, {"X-Error-Code": "RepoNotFound"}, b""
        for repo, revisions in self.datasets.items():
            if repo not in path:
                continue
            if repo in self.refuses:
                status, code = self.refuses[repo]
                return status, {"X-Error-Code": code}, b""
            commits = {get_commit(repo, revision): revision for revision in revisions}
            named = path.partition("/revision/")[2] or path.partition("/resolve/")[2].partition("/")[0]
            revision = commits.get(named, named)
            if revision not in revisions:
                return 404, {"X-Error-Code": "RevisionNotFound"}, b""
            files = revisions[revision]
            if path.startswith("/api/"):
                siblings = [{"rfilename": name, "size": len(body)} for name, body in files.items()]
                found = {"id": repo, "sha": get_commit(repo, revision), "siblings": siblings}
                return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()
            body = files[path.partition(f"/resolve/{named}/")[2]]
            etag = hashlib.sha256(body).hexdigest()
            return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": get_commit(repo, revision)}, body
        return missing


def get_commit(repo: str, revision: str) -> str:
    """The commit of a revision, as git writes it."""
    return hashlib.sha1(f"{repo} {revision}".encode()).hexdigest()
