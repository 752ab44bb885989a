"""A local recorder that speaks LangSmith's wire protocol: it keeps datasets, examples, sessions, runs and feedback.

Point `LANGSMITH_ENDPOINT` at `LangSmithServer().url`. Runs arrive as multipart (plain or zstd) or as JSON batches;
a run is a `post` and later `patch`es, merged here by id.
"""

import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import zstandard
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.wire.server import LocalServer

Row = dict[str, Any]
Serve = Callable[[Request], Awaitable[Response]]
TENANT = "00000000-0000-4000-8000-000000000001"
BORN = "2025-01-01T00:00:00+00:00"
BATCHES = {
    "use_multipart_endpoint": True, "size_limit": 100, "size_limit_bytes": 20_971_520,
    "scale_up_nthreads_limit": 4, "scale_up_qsize_trigger": 1000, "scale_down_nempty_trigger": 4,
}  # fmt: skip
FLAGS = {"zstd_compression_enabled": True, "dataset_examples_multipart_enabled": True}


class LangSmithServer(LocalServer):
    """The recorder; without a key it takes everybody, without `multipart` it says that it takes JSON only."""

    def __init__(self, *, key: str | None = None, multipart: bool = True) -> None:
        self.key, self.multipart = key, multipart
        self.datasets: dict[str, Row] = {}
        self.examples: dict[str, Row] = {}
        self.sessions: dict[str, Row] = {}
        self.runs: dict[str, Row] = {}
        self.feedback: list[Row] = []
        self.prompts: dict[str, Row] = {}
        self.commits: dict[str, list[Row]] = {}
        """Commits of prompts by the prompt's name, the newest first."""
        self.asked: list[str] = []
        """Method and path of every request."""
        self.revoked_by = ""
        """Method and path of the request after which nobody's key is good any more."""
        self.page = 2
        """Most runs in an answer to a query."""
        self.unknown: list[str] = []
        """Requests that no route serves."""
        super().__init__(self._routes())
        self.url = f"http://127.0.0.1:{self.port}"

    def children(self, run: Row) -> list[Row]:
        return sorted((r for r in self.runs.values() if r.get("parent_run_id") == run["id"]), key=_started)

    def below(self, run: Row) -> Iterator[Row]:
        for child in self.children(run):
            yield child
            yield from self.below(child)

    def roots(self, session: str) -> list[Row]:
        """The runs at the top of a project, by its name."""
        found = (r for r in self.runs.values() if r.get("session_name") == session and not r.get("parent_run_id"))
        return sorted(found, key=_started)

    def settled(self, quiet: float = 0.3, patience: float = 20.0) -> None:
        until = time.monotonic() + patience
        count = -1
        while count != len(self.asked) and time.monotonic() < until:
            count = len(self.asked)
            time.sleep(quiet)

    def _routes(self) -> list[Route]:
        served = {
            ("GET", "/info"): self._info,
            ("POST", "/runs"): self._post_run,
            ("PATCH", "/runs/{id}"): self._patch_run,
            ("POST", "/runs/batch"): self._batch,
            ("POST", "/api/v2/runs/query"): self._query_runs,
            ("POST", "/runs/multipart"): self._runs_multipart,
            ("GET", "/sessions"): _find(self.sessions),
            ("POST", "/sessions"): self._create_session,
            ("GET", "/sessions/{id}"): _read(self.sessions),
            ("PATCH", "/sessions/{id}"): _patch(self.sessions),
            ("GET", "/datasets"): _find(self.datasets),
            ("POST", "/datasets"): self._create_dataset,
            ("GET", "/datasets/{id}"): _read(self.datasets),
            ("GET", "/examples"): self._list_examples,
            ("GET", "/examples/{id}"): _read(self.examples),
            ("PATCH", "/examples/{id}"): _patch(self.examples),
            ("POST", "/examples"): self._create_example,
            ("POST", "/examples/bulk"): self._create_examples,
            ("POST", "/v1/platform/datasets/{id}/examples"): self._examples_multipart,
            ("GET", "/feedback"): self._list_feedback,
            ("POST", "/feedback"): self._create_feedback,
        }
        served |= {
            ("GET", "/settings"): _answer({"id": TENANT, "display_name": "test", "created_at": BORN}),
            ("POST", "/repos"): self._create_prompt,
            ("GET", "/repos/{owner}/{name}"): self._read_prompt,
            ("PATCH", "/repos/{owner}/{name}"): self._read_prompt,
            ("GET", "/commits/{owner}/{name}"): self._list_commits,
            ("POST", "/commits/{owner}/{name}"): self._commit,
            ("GET", "/commits/{owner}/{name}/{commit}"): self._read_commit,
        }
        routes = [Route(path, self._guarded(serve), methods=[method]) for (method, path), serve in served.items()]
        return [*routes, Route("/{path:path}", self._unserved, methods=["GET", "POST", "PATCH", "PUT", "DELETE"])]

    def _guarded(self, serve: Serve) -> Serve:
        async def guarded(request: Request) -> Response:
            self.asked.append(f"{request.method} {request.url.path}")
            if self.key is not None and request.headers.get("x-api-key") != self.key:
                return JSONResponse({"detail": "Invalid token"}, 401)
            answered = await serve(request)
            if self.asked[-1] == self.revoked_by:
                self.key = "another"
            return answered

        return guarded

    async def _unserved(self, request: Request) -> Response:
        self.unknown.append(f"{request.method} {request.url.path}")
        return JSONResponse({"detail": "Not Found"}, 404)

    async def _info(self, _: Request) -> Response:
        batches = {**BATCHES, "use_multipart_endpoint": self.multipart}
        flags = FLAGS if self.multipart else {}
        return JSONResponse({"version": "0.16.0", "batch_ingest_config": batches, "instance_flags": flags})

    async def _post_run(self, request: Request) -> Response:
        self._merge(await request.json())
        return JSONResponse({}, 202)

    async def _patch_run(self, request: Request) -> Response:
        self._merge({"id": request.path_params["id"], **await request.json()})
        return JSONResponse({}, 202)

    async def _batch(self, request: Request) -> Response:
        body = json.loads(await _body(request))
        for run in (*body.get("post", ()), *body.get("patch", ())):
            self._merge(run)
        return JSONResponse({}, 202)

    async def _query_runs(self, request: Request) -> Response:
        asked = await request.json()
        found = [run for run in self.runs.values() if run.get("session_id") in asked["project_ids"]]
        roots = [run for run in found if not (asked.get("is_root") and run.get("parent_run_id"))]
        first = int(asked.get("cursor") or 0)
        last = first + min(asked["page_size"], self.page)
        newest = sorted(roots, key=_started, reverse=True)
        return JSONResponse({"items": newest[first:last], "next_cursor": str(last) if last < len(newest) else None})

    async def _runs_multipart(self, request: Request) -> Response:
        for name, payload in _parts(request.headers["content-type"], await _body(request)):
            kind, run, *field = name.split(".")
            if kind == "feedback":
                self.feedback.append(json.loads(payload))
            elif field:
                self._merge({"id": run, field[0]: json.loads(payload)})
            else:
                self._merge(json.loads(payload))
        return JSONResponse({}, 202)

    def _merge(self, told: Row) -> None:
        """Add fields of a run; its end may arrive before its start, whose outputs are empty."""
        kept = self.runs.setdefault(str(told["id"]), {})
        kept.update({key: value for key, value in told.items() if value not in (None, {}) or key not in kept})

    async def _create_session(self, request: Request) -> Response:
        row = {"start_time": BORN, "tenant_id": TENANT, **await request.json()}
        return _add(self.sessions, row, "Session already exists")

    async def _create_dataset(self, request: Request) -> Response:
        body = await request.json()
        row = {"id": str(uuid.uuid4()), "created_at": BORN, "modified_at": BORN, "tenant_id": TENANT, **body}
        row["metadata"] = (body.get("extra") or {}).get("metadata")
        return _add(self.datasets, row, "Dataset with this name already exists.")

    async def _list_examples(self, request: Request) -> Response:
        asked = request.query_params
        rows = [e for e in self.examples.values() if e["dataset_id"] == asked.get("dataset", e["dataset_id"])]
        start = int(asked.get("offset", 0))
        return JSONResponse(rows[start : start + int(asked.get("limit", 100))])

    async def _create_example(self, request: Request) -> Response:
        return JSONResponse(self._keep(await request.json()))

    async def _create_examples(self, request: Request) -> Response:
        return JSONResponse([self._keep(body) for body in await request.json()])

    async def _examples_multipart(self, request: Request) -> Response:
        rows: dict[str, Row] = {}
        for name, payload in _parts(request.headers["content-type"], await _body(request)):
            example, _, field = name.partition(".")
            row = rows.setdefault(example, {"id": example, "dataset_id": request.path_params["id"]})
            row.update({field: json.loads(payload)} if field else json.loads(payload))
        kept = [self._keep(row) for row in rows.values()]
        return JSONResponse({"example_ids": [row["id"] for row in kept], "count": len(kept), "as_of": BORN})

    def _keep(self, body: Row) -> Row:
        row = {"id": str(uuid.uuid4()), "created_at": BORN, "modified_at": BORN, "outputs": None, **body}
        self.examples[row["id"]] = row
        return row

    async def _list_feedback(self, _: Request) -> Response:
        return JSONResponse(self.feedback)

    async def _create_prompt(self, request: Request) -> Response:
        body = await request.json()
        name, flags = body["repo_handle"], {"is_archived": False, "owner": None, "full_name": body["repo_handle"]}
        counts = dict.fromkeys(("num_likes", "num_downloads", "num_views", "num_commits"), 0)
        born = {"id": str(uuid.uuid4()), "tenant_id": TENANT, "created_at": BORN, "updated_at": BORN}
        if re.fullmatch(r"[a-z][a-z0-9_-]*", name) is None:
            return JSONResponse({"detail": "Invalid repo handle"}, 422)
        self.prompts[name], self.commits[name] = {**body, **flags, **counts, **born}, []
        return JSONResponse({"repo": self.prompts[name]})

    async def _read_prompt(self, request: Request) -> Response:
        row = self.prompts.get(request.path_params["name"])
        if row is None:
            return JSONResponse({"detail": "Not Found"}, 404)
        if request.method == "PATCH":
            row.update(await request.json())
        return JSONResponse({"repo": row})

    async def _list_commits(self, request: Request) -> Response:
        found = self.commits[request.path_params["name"]]
        return JSONResponse({"commits": found, "total": len(found)})

    async def _commit(self, request: Request) -> Response:
        body, commits = await request.json(), self.commits[request.path_params["name"]]
        if body["parent_commit"] != (commits[0]["commit_hash"] if commits else None):
            return JSONResponse({"detail": "Parent commit is not the latest"}, 409)
        if commits and commits[0]["manifest"] == body["manifest"]:
            return JSONResponse({"detail": "Nothing to commit"}, 409)
        commits.insert(0, {"id": str(uuid.uuid4()), "commit_hash": uuid.uuid4().hex, "examples": [], **body})
        return JSONResponse({"commit": commits[0]})

    async def _read_commit(self, request: Request) -> Response:
        commits = self.commits.get(request.path_params["name"])
        return JSONResponse(commits[0]) if commits else JSONResponse({"detail": "Not Found"}, 404)

    async def _create_feedback(self, request: Request) -> Response:
        body = json.loads(await _body(request))
        self.feedback.append(body)
        return JSONResponse(body)


def _add(rows: dict[str, Row], row: Row, refusal: str) -> Response:
    if any(other["name"] == row["name"] for other in rows.values()):
        return JSONResponse({"detail": refusal}, 409)
    rows[row["id"]] = row
    return JSONResponse(row)


def _answer(body: Row) -> Serve:
    async def answer(_: Request) -> Response:
        return JSONResponse(body)

    return answer


def _find(rows: dict[str, Row]) -> Serve:
    async def find(request: Request) -> Response:
        name = request.query_params.get("name")
        return JSONResponse([row for row in rows.values() if name is None or row["name"] == name])

    return find


def _read(rows: dict[str, Row]) -> Serve:
    async def read(request: Request) -> Response:
        row = rows.get(request.path_params["id"])
        return JSONResponse({"detail": "Not Found"}, 404) if row is None else JSONResponse(row)

    return read


def _patch(rows: dict[str, Row]) -> Serve:
    async def patch(request: Request) -> Response:
        row, changes = rows[request.path_params["id"]], await request.json()
        row.update({key: value for key, value in changes.items() if value is not None})
        return JSONResponse(row)

    return patch


async def _body(request: Request) -> bytes:
    raw = await request.body()
    if request.headers.get("content-encoding") == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(raw) as reader:
            return reader.read()
    return raw


def _parts(content_type: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and payload of every part of a multipart body; `email` takes longer for it than all else takes for a run."""
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:-1]:
        head, _, payload = part.partition(b"\r\n\r\n")
        yield head.partition(b'name="')[2].partition(b'"')[0].decode(), payload


def _started(run: Row) -> str:
    return str(run.get("start_time", "")) + str(run.get("dotted_order", ""))
