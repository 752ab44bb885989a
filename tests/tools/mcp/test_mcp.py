"""Tools of MCP servers that run: over standard input and over HTTP, also where a server breaks off or hangs."""

import asyncio
import gc
import gzip
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool

from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenMap, to_plain_json
from selfwire.runs.record import list_run_names
from selfwire.tools import mcp
from selfwire.tools.mcp import McpTool, read_servers
from selfwire.tools.ready import end_servers, load_tools
from tests import processes
from tests.commands import call
from tests.tools.mcp.server_script import PIDS, SECRET
from tests.wire.server import Body, WireServer

SCRIPT = str(Path(__file__).with_name("server_script.py"))
ODD = str(Path(__file__).with_name("odd_server.py"))
PROGRAM = {"command": sys.executable, "args": [SCRIPT]}
KEY = "a-key-that-nobody-sees"


def write_servers(folder: Path, **servers: Mapping[str, Any]) -> Path:
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


async def use(tool: Tool, **arguments: object) -> str:
    """The result of a call, or the error that the agent reads."""
    try:
        return await tool.run(arguments, scope=Scope())
    except ToolError as error:
        return f"error: {error}"


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Tool]]:
    """The tools of a server that runs as long as the tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEY_OF_A_TEST", KEY)
        env = {SECRET: "${KEY_OF_A_TEST}"}
        path = write_servers(tmp_path_factory.mktemp("servers"), script={**PROGRAM, "env": env})
        yield load_tools(f"calculator,mcp:{path}")


async def test_a_tool_has_the_name_purpose_schema_and_result_of_the_servers(tools: Mapping[str, Tool]) -> None:
    spec = tools["echo"].spec
    assert (spec.description, spec.parameters["required"]) == ("Say a text again.", ("text",))
    assert await use(tools["echo"], text="a", config="b", runtime="c") == "abc"
    assert await use(tools["tell"], name="pid") == await use(tools["tell"], name="pid")


async def test_arguments_that_do_not_fit_never_reach_the_server(tools: Mapping[str, Tool]) -> None:
    told = await use(tools["echo"], text=3)
    assert told == "error: echo refused its input: text: 3 is not of type 'string'"
    assert "'text' is a required property" in await use(tools["echo"], config="b")


async def test_results_are_cut_and_pictures_named(tools: Mapping[str, Tool]) -> None:
    assert await use(tools["flood"]) == "x" * 4000 + "\n[cut off]"
    assert await use(tools["draw"]) == "[image of type image/png, which is not shown]"


async def test_a_secret_is_in_no_result_and_no_error(tools: Mapping[str, Tool]) -> None:
    assert await use(tools["tell"], name=SECRET) == "***"
    assert await use(tools["fail"], why="broken") == "error: fail failed: Error executing tool fail: broken with ***"


async def test_a_server_gets_of_the_environment_what_its_file_names_and_asks_nobody(
    tools: Mapping[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert os.environ["KEY_OF_A_TEST"] == KEY  # it was there when the server began
    told = {name: await use(tools["tell"], name=name) for name in ("KEY_OF_A_TEST", "PYTHONPATH", "PATH")}
    assert told == {"KEY_OF_A_TEST": "none", "PYTHONPATH": "none", "PATH": os.environ["PATH"]}
    assert await use(tools["ask"]) == "the model: Sampling not supported; the user: Elicitation not supported"


async def test_a_name_that_another_tool_has_gets_the_servers_before_it(tools: Mapping[str, Tool]) -> None:
    assert await use(tools["calculator"], expression="1 + 1") == "2"
    assert await use(tools["script_calculator"], expression="1 + 1") == "not 1 + 1"
    assert await use(tools["files_list_all"]) == "all"


LAUGHS = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)} | {"l40": {"type": "string"}}
DRAFT = "https://json-schema.org/draft/2020-12/schema"
NESTED: dict[str, Any] = reduce(
    lambda inner, _: {"anyOf": [inner], "unevaluatedItems": {"type": "integer"}}, range(40), {"contains": {"const": 1}}
)
HOSTILE = {
    "a pattern without end": {"properties": {"a": {"pattern": "^(a+)+$"}}},
    "a name without end": {"patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False},
    "names without end": {"allOf": [{"patternProperties": {"^(a+)+$": {}}}], "unevaluatedProperties": False},
    "references without end": {"$defs": LAUGHS, "properties": {"a": {"$ref": "#/$defs/l0"}}},
    "a pattern below another draft": {"properties": {"a": {"$schema": DRAFT, "pattern": "^(a+)+$"}}},
    "references below another draft": {
        "$defs": LAUGHS,
        "properties": {"a": {"$schema": DRAFT, "allOf": [{"$ref": "#/$defs/l0"}]}},
    },
    "items without end": {"properties": {"b": NESTED}},
    "an unknown type": {"properties": {"a": {"type": "strin"}}},
    "a type that is none": {"properties": {"a": {"type": None}}},
    "a bound that is a text": {"properties": {"a": {"minimum": "x"}, "b": {"minItems": "x"}}},
    "a list of properties": {"properties": []},
    "no list of names": {"required": 5},
    "a division by nothing": {"properties": {"c": {"multipleOf": 0}}},
    "a draft that is a list": {"$schema": ["x"]},
}


def check_arguments() -> None:
    """Check the arguments of a call by its tool's schema; both are JSON in `sys.argv`."""
    schema, arguments = json.loads(sys.argv[1])
    tool = StructuredTool(name="a", description="A.", args_schema=schema, func=lambda **_: "")
    McpTool(tool, mcp._make_spec(tool))._check(arguments)


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=list(HOSTILE))
def test_the_check_of_arguments_by_a_strangers_schema_ends(schema: dict[str, Any]) -> None:
    draft = {"$schema": DRAFT, "type": "object", **schema}
    text = f"{'a' * 40}!"
    given = json.dumps([draft, {"a": text, text: 1, "b": [1, 2], "c": 1}])
    process = processes.start("tests.tools.mcp.test_mcp:check_arguments", given)
    errors = process.communicate(timeout=120)[1]
    assert (process.returncode, errors) == (0, "")


def test_a_server_with_too_many_tools_or_too_long_a_schema_is_refused(tmp_path: Path) -> None:
    refused = {"many": "has 312 tools, and 256 at most", "long": r"schema of tool 'tool0' .* 100,000 at most"}
    for kind, told in refused.items():
        path = write_servers(tmp_path, big={"command": sys.executable, "args": [SCRIPT, kind]})
        with pytest.raises(ConfigError, match=told):
            load_tools(f"mcp:{path}")
    wide = {"command": sys.executable, "args": [SCRIPT, "wide"]}  # the letters count, however they are sent
    assert "tool0" in load_tools(f"mcp:{write_servers(tmp_path, big=wide)}")


def odd(listed: object, *called: object) -> dict[str, Any]:
    return {"command": sys.executable, "args": [ODD, *map(json.dumps, (listed, *called))], "env": {SECRET: KEY}}


def listing(*names: object, schema: object = FrozenMap()) -> dict[str, Any]:
    return {"result": {"tools": [{"name": name, "description": "A.", "inputSchema": schema} for name in names]}}


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (odd({"error": {"code": -32603, "message": f"no {KEY}"}}), "cannot be read: McpError: no ***; mend what"),
        (odd(listing(5)), "cannot be read: tools.0.name: Input should be a valid string; mend what"),
        (odd(listing("a", schema={"default": math.nan})), "cannot be read: ValueError: ToolSpec: parameters"),
        (odd({"result": {"tools": [], "nextCursor": "more"}}), "cannot be read: RuntimeError: Reached max of 1000"),
        ({"command": sys.executable, "args": [ODD]}, "cannot be read: McpError: Connection closed"),
        (odd(listing()), "the server 'a' lists no tools; see its settings, or set \"disabled\": true"),
    ],
    ids=["error", "no name", "no number", "no end", "ends", "none"],
)
def test_tools_that_cannot_be_listed_are_told_with_file_and_server(tmp_path: Path, server: Any, told: str) -> None:
    path = write_servers(tmp_path, a=server)
    with pytest.raises(ConfigError) as caught:
        load_tools(f"mcp:{path}")
    assert str(caught.value).startswith(f"{path}: the ")
    assert told in str(caught.value)
    assert KEY not in str(caught.value)


async def test_whatever_a_server_lists_models_get_other_names_and_schemas_of_objects(tmp_path: Path) -> None:
    schema = {"type": "array", "properties": None, "description": f"Say {KEY}."}
    names = ("a.b", "a/b", "x" * 70, "x" * 71, "\u5b57", "\u5b58")
    path = write_servers(tmp_path, odd=odd(listing(*names, schema=schema), {"result": {"content": []}}))
    tools = load_tools(f"mcp:{path}")
    long = f"odd_{'x' * 46}"
    assert [name[:-9] for name in tools] == ["odd_a_b", "odd_a_b", long, long, "odd__", "odd__"]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in tools)
    assert {json.dumps(to_plain_json(tool.spec.parameters)) for tool in tools.values()} == {
        '{"type": "object", "properties": {}, "description": "Say ***."}'
    }
    assert {await use(tool, a=1) for tool in tools.values()} == {""}


def test_a_tool_of_a_name_that_is_shared_keeps_it_whatever_else_is_listed(tmp_path: Path) -> None:
    def load(*names: str) -> dict[str, str]:
        tools = load_tools(f"mcp:{write_servers(tmp_path, odd=odd(listing(*names)))}")
        return {name: cast(McpTool, tool).tool.name for name, tool in tools.items()}

    all_of_them = load("a/b", "a.b", "a:b")
    assert len(all_of_them) == 3
    assert load("a:b", "a/b", "a.b") == all_of_them
    assert load("a.b", "a:b").items() < all_of_them.items()


def test_a_word_of_the_environment_stays_where_a_schema_names_arguments_and_their_values(tmp_path: Path) -> None:
    table = {"enum": ["customers", "suppliers"], "description": f"One, customers, {KEY}.", "default": "customers"}
    schema = {"properties": {"customers_only": {"type": "boolean"}, "table": table}, "required": ["customers_only"]}
    server = odd(listing("go", schema=schema))
    server["env"]["TABLE"] = "customers"
    [tool] = load_tools(f"mcp:{write_servers(tmp_path, odd=server)}").values()
    shown = to_plain_json(tool.spec.parameters)
    assert shown["required"] == ["customers_only"]
    assert shown["properties"]["customers_only"] == {"type": "boolean"}
    assert shown["properties"]["table"] == {**table, "description": "One, ***, ***.", "default": "***"}


def test_a_choice_of_schemas_becomes_one_of_an_object_with_all_their_properties(tmp_path: Path) -> None:
    here, there = ({"properties": {name: {"type": "string"}}, "required": [name]} for name in ("path", "url"))
    schema = {"type": "object", "oneOf": [here, there], "not": {"required": ["a"]}, "properties": {"n": {}}}
    [tool] = load_tools(f"mcp:{write_servers(tmp_path, odd=odd(listing('go', schema=schema)))}").values()
    text = {"type": "string"}
    assert to_plain_json(tool.spec.parameters) == {"type": "object", "properties": {"path": text, "url": text, "n": {}}}


@pytest.mark.parametrize(("code", "told"), [(-32000, f"no such file, {KEY}"), (1, "Connection closed")])
async def test_an_error_of_a_server_does_not_end_it(tmp_path: Path, code: int, told: str) -> None:
    failing = odd(listing("go"), {"error": {"code": code, "message": told}})
    tools = load_tools(f"mcp:{write_servers(tmp_path, odd=failing)}")
    assert {await use(tools["go"]) for _ in range(3)} == {f"error: go failed: {told.replace(KEY, '***')}"}


async def test_an_answer_of_no_known_form_is_told_in_one_line(tmp_path: Path) -> None:
    strange = odd(listing("go"), {"result": {"content": [{"type": "video"}]}})
    tools = load_tools(f"mcp:{write_servers(tmp_path, odd=strange)}")
    assert await use(tools["go"]) == "error: go failed: content.0.TextContent.type: Input should be 'text'"


async def test_a_result_is_read_without_the_schema_that_its_server_names_for_it(tmp_path: Path) -> None:
    listed = listing("go")
    listed["result"]["tools"][0]["outputSchema"] = {"type": "object", "properties": {"a": {"pattern": "^b$"}}}
    unlike = odd(listed, {"result": {"content": [], "structuredContent": {"a": "a"}}})
    tools = load_tools(f"mcp:{write_servers(tmp_path, odd=unlike)}")
    assert await use(tools["go"]) == '{"a": "a"}'


@pytest.mark.slow
async def test_two_servers_that_share_names_run_side_by_side_and_once_each(tmp_path: Path) -> None:
    path = write_servers(tmp_path, one=PROGRAM, other=PROGRAM, off={"command": "none", "disabled": True})
    tools, again = await asyncio.gather(*(asyncio.to_thread(load_tools, f"mcp:{path}") for _ in range(2)))
    assert "one_echo" in tools
    assert "echo" not in tools
    first, second, third = [
        await use(tool, name="pid") for tool in (tools["one_tell"], tools["other_tell"], again["one_tell"])
    ]
    assert first == third != second
    with end_servers():
        pass
    wait_until(lambda: not is_running(first) and not is_running(second))
    assert await use(tools["one_echo"], text="a later call starts it again") == "a later call starts it again"


@pytest.mark.slow
async def test_a_server_that_dies_is_started_again_unless_it_dies_again_at_once(tmp_path: Path) -> None:
    tools = await asyncio.to_thread(load_tools, f"mcp:{write_servers(tmp_path, script=PROGRAM)}")
    before = await use(tools["tell"], name="pid")
    under_way = asyncio.create_task(use(tools["wait"], file=str(tmp_path / "begun")))
    await asyncio.to_thread(wait_until, (tmp_path / "begun").exists)
    told, other = await asyncio.gather(use(tools["die"]), under_way)
    assert told == "error: die failed: the server 'script' ended during the call"
    assert other == "error: wait failed: the server 'script' ended during the call"
    after = await use(tools["tell"], name="pid")
    assert after not in (before, told)
    os.kill(int(after), signal.SIGKILL)  # between two calls
    wait_until(lambda: not is_running(after))
    found = await use(tools["echo"], text="back")
    if found != "back":  # its end was not known yet when the call began
        assert found == "error: echo failed: the server 'script' ended during the call"
        assert await use(tools["echo"], text="back") == "back"
    for _ in range(2):
        await use(tools["die"])
    assert "broke off 2 times without an answer, and stays off" in await use(tools["echo"], text="gone")


@pytest.mark.slow
async def test_a_server_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    tools = await asyncio.to_thread(load_tools, f"mcp:{write_servers(tmp_path, script={**PROGRAM, 'timeout': 5})}")
    before, began = await use(tools["tell"], name="pid"), time.monotonic()
    assert await use(tools["hang"]) == "error: hang failed: no answer within 5 seconds"
    assert time.monotonic() - began < 60
    for _ in range(20):
        after = await use(tools["tell"], name="pid")
        if after.isdigit():
            break
    assert after != before
    assert not is_running(before)


def test_a_server_that_windows_cannot_start_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="'own' cannot be started on Windows; start it yourself, and give its `url`"):
        load_tools(f"mcp:{write_servers(tmp_path, own=PROGRAM)}")


@pytest.mark.slow
async def test_a_server_over_http_gets_its_headers_and_may_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_A_TEST", KEY)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer ${KEY_OF_A_TEST}"}}
    path = write_servers(tmp_path, web={**address, "transport": "streamable_http", "timeout": 2})
    with pytest.raises(ConfigError, match="the server 'web' does not start: ConnectError"):
        await asyncio.to_thread(load_tools, f"mcp:{path}")

    def start() -> subprocess.Popen[bytes]:
        started = subprocess.Popen([sys.executable, SCRIPT, str(port)])
        wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        return started

    process = start()
    try:
        tools = await asyncio.to_thread(load_tools, f"mcp:{path}")
        assert await use(tools["header"], name="authorization") == "Bearer ***"
        assert (await use(tools["die"])).startswith("error: ")
        process.wait()
        assert (await use(tools["echo"], text="gone")).startswith("error: ")
        process = start()
        answers = [await use(tools["echo"], text="back") for _ in range(6)]
        assert answers[-1] == "back"
    finally:
        process.kill()
        process.wait()


PACKED = gzip.compress(bytes(2**20))
ADDRESS_ANSWERS = [
    ("initialize", 200, "text/html", b"<html>", {}, "does not start: ValueError: Unexpected content type: text/html"),
    ("initialize", 200, "application/json", b"{", {}, "does not start: Invalid JSON"),
    ("initialize", 200, "application/json", PACKED, {"Content-Encoding": "gzip"}, "a body that is packed by 'gzip'"),
    ("initialize", 403, "application/json", b"{}", {}, "'403 Forbidden'; check the key in its headers"),
    ("tools/list", 401, "application/json", b"{}", {}, "'401 Unauthorized'; check the key in its headers"),
    ("tools/call", 401, "application/json", b"{}", {}, "ended during the call: HTTPStatusError: Client error '401"),
    ("tools/call", 200, "text/html", b"<html>", {}, "cannot be read: ValueError: Unexpected content type: text/html"),
    ("tools/call", 200, "application/json", bytes(5000), {}, "cannot be read: ReadError: a message of more than 0 MiB"),
]


@pytest.mark.parametrize(("method", "status", "kind", "body", "headers", "told"), ADDRESS_ANSWERS)
def test_a_server_at_an_address_that_answers_otherwise_is_told_at_once_with_its_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    status: int,
    kind: str,
    body: bytes,
    headers: Mapping[str, str],
    told: str,
) -> None:
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
    listed = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked["method"] == method:
                return self.answer(status, kind, body, headers)
            if "id" not in asked:
                return self.answer(202, kind, b"", {})
            result = {"protocolVersion": asked.get("params", {}).get("protocolVersion"), **about, **listed}
            sent = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
            return self.answer(200, "application/json", json.dumps(sent).encode(), {})

        def answer(self, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(mcp, "LARGEST_MESSAGE", 2000)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = {"url": f"http://127.0.0.1:{server.server_port}/mcp", "timeout": 3, "start_timeout": 60}
        try:
            tools = load_tools(f"mcp:{write_servers(tmp_path, web=address)}")
            found = asyncio.run(use(tools["echo"]))
        except ConfigError as error:
            found = str(error)
        server.shutdown()
    assert told in found
    assert "http" not in found  # an address may hold a key


def hold_tools() -> None:
    """Load the tools of a file, say so and wait."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
    kept = load_tools(f"mcp:{sys.argv[1]}")
    sys.stdout.write(f"{len(kept)} tools")
    sys.stdout.flush()
    time.sleep(600)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_no_server_is_left_when_its_run_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    own = tmp_path / "own"  # the process of a session of its own, as that of a browser is
    deaf = tmp_path / "deaf.sh"  # which hears neither the end of its input nor a signal, and has started others
    deaf.write_text(
        f"trap '' TERM HUP INT\nsetsid sleep 600 2>/dev/null & echo $! > {own}\n{sys.executable} {SCRIPT}\nsleep 600\n"
    )
    path = write_servers(tmp_path, deaf={"command": "sh", "args": [str(deaf)], "env": {PIDS: str(pids)}})
    process = processes.start("tests.tools.mcp.test_mcp:hold_tools", str(path))
    wait_until(lambda: process.out.read_text() != "" or process.poll() is not None)
    [pid] = pids.read_text().split()
    group = os.getpgid(int(pid))
    process.send_signal(number)
    process.communicate()
    wait_until(lambda: not is_running(pid) and not list_group(group) and not is_running(own.read_text().strip()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="elsewhere what a server leaves is not this process's")
@pytest.mark.parametrize("late", [0, 0.5])
def test_what_a_server_has_left_and_has_ended_is_no_zombie(late: float) -> None:
    said = "for n in 1 2 3; do (setsid true &) ; done; sleep 1; echo done; cat"
    starter = Path(mcp.__file__).with_name("mcp_start.py")
    busy = (  # a machine on which this process waits before it ignores the ends of its children
        "import runpy, signal, sys, time; told = signal.signal; sys.argv.pop(0); "
        f"signal.signal = lambda n, to: (time.sleep({late} * (n == signal.SIGCHLD)), told(n, to)); "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    line = [sys.executable, "-c", busy, str(starter), str(os.getpid()), "sh", "-c", said]
    with subprocess.Popen(line, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, start_new_session=True) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stdout.readline() == b"done\n"
        for place in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                assert place.read_bytes().rpartition(b")")[2].split()[:2] != [b"Z", b"%d" % started.pid]
        started.stdin.close()


def list_group(group: int) -> list[str]:
    """The processes of a group that run."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        if is_running(place.name):
            try:
                found += [place.name] if os.getpgid(int(place.name)) == group else []
            except ProcessLookupError:
                continue
    return found


@pytest.mark.slow
def test_an_agent_reads_what_a_server_says_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that dies is read as an error, the next is answered; a changed file is told; no secret is on record."""
    monkeypatch.setenv("KEY_OF_A_TEST", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-nobody")
    tasks, home = tmp_path / "tasks.jsonl", tmp_path / "home"
    tasks.write_text("".join(f'{{"input": "Task {n}?", "reference": "{n}"}}\n' for n in range(2)))
    pids = tmp_path / "pids"
    path = write_servers(tmp_path, script={**PROGRAM, "env": {SECRET: "${KEY_OF_A_TEST}", PIDS: str(pids)}})

    async def answer(body: Body) -> AIMessage:
        said = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        wanted: list[tuple[str, dict[str, str]]] = [("die", {}), ("tell", {"name": SECRET})]
        if len(said) == len(wanted):
            return AIMessage(f"Answer: {' | '.join(said)}")
        name, arguments = wanted[len(said)]
        return AIMessage("", tool_calls=[{"id": "call", "name": name, "args": arguments}])

    with WireServer(answer) as server:
        few = ("--concurrency", "1", "--embedder", "hashing", "--model", "openai:mine", "--base-url", server.url)
        words = ("eval", "single", "--benchmark", str(tasks), *few, "--mcp", str(path))
        call(home, *words, "--budget-calls", "3", code=None)
        [run] = list_run_names(home)
        path.write_text(path.read_text().replace(SCRIPT, f"./{os.path.relpath(SCRIPT, tmp_path)}"))
        told = call(home, "eval", "--resume", run, "--budget-calls", "40").output
        assert len(server.asked) == 6
    assert f"{path} has changed since the run began" in told
    assert "tool 'die' failed in all of its 2 calls, such as error: die failed: the server 'script' ended" in told
    results = (home / "runs" / run / "results.jsonl").read_text()
    assert results.count("error: die failed: the server 'script' ended during the call | ***") == 2
    assert not [file for file in home.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    assert len(pids.read_text().split()) == 4
    wait_until(lambda: not any(map(is_running, pids.read_text().split())))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON: Expecting property name"),
        ('{"servers": {}}', 'has no MCP servers; write {"mcpServers"'),
        ('{"mcpServers": {"a": {"command": "x", "disabled": true}}}', "names no MCP server that is not disabled"),
        ('{"mcpServers": {"a": {}}}', "server 'a': give either command, for a program, or url, for an address"),
        (
            '{"mcpServers": {"a": {"comand": "x"}}}',
            "server 'a': comand: there is no such field; its fields are",
        ),
        (
            '{"mcpServers": {"a": {"command": "x", "env": {"K": 4711}}}}',
            "server 'a': env.K: Input should be a valid str",
        ),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "server 'a': args: Input should be a list or a tuple"),
        (
            '{"mcpServers": {"a": {"command": "x", "headers": {"K": "4711"}}}}',
            "server 'a': headers and other transports",
        ),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "server 'a': url: String should match pattern"),
        ('{"mcpServers": {"a": {"url": "http://x", "type": "websocket"}}}', "server 'a': type: Input should be"),
        (
            '{"mcpServers": {"a": {"url": "http://x", "env": {"K": "4711"}}}}',
            "server 'a': args, env, cwd and transport",
        ),
        (
            '{"mcpServers": {"a": {"command": "x", "timeout": 0}}}',
            "server 'a': timeout: Input should be greater than 0",
        ),
    ],
)
def test_a_fault_of_a_file_names_file_server_and_field_and_no_value(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "servers.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_servers(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ({"command": "no-such-program"}, "server 'a': its command 'no-such-program' is no program here"),
        ({**PROGRAM, "env": {"K": "${NOT_SET_HERE}"}}, "server 'a', env.K: the environment variable 'NOT_SET_HERE'"),
        ({"command": "false"}, ": Connection closed"),
        ({"command": "sh", "args": ["-c", "echo no $K here >&2"], "env": {"K": KEY}}, "errors is 'no *** here'"),
        ({"url": f"http://127.0.0.1:9/mcp?api_key={KEY}"}, "the server 'a' does not start: ConnectError"),
    ],
    ids=["missing", "unset", "ends", "says why", "secret in an address"],
)
def test_a_server_that_does_not_start_is_told_with_the_reason(tmp_path: Path, server: Any, told: str) -> None:
    path = write_servers(tmp_path, a=server)
    with pytest.raises(ConfigError) as caught:
        load_tools(f"mcp:{path}")
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_server_that_never_answers_is_told_within_the_time_of_its_start_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfwire.tools.mcp.END", 60)
    pid, began = tmp_path / "pid", time.monotonic()
    mute = {"command": "sh", "args": ["-c", f"echo $$ > {pid}; exec sleep 600"], "start_timeout": 3}
    with pytest.raises(ConfigError, match=r"'mute' has not started and listed its tools within 3 seconds; .*start"):
        load_tools(f"mcp:{write_servers(tmp_path, mute=mute)}")
    gc.collect()
    wait_until(lambda: not pid.exists() or not is_running(pid.read_text()))  # a busy machine may not have begun it
    assert time.monotonic() - began < 60  # which is `END`


def test_a_file_has_a_fingerprint_without_its_secrets(tmp_path: Path) -> None:
    def digest(**fields: Any) -> str:
        return read_servers(write_servers(tmp_path, a={**PROGRAM, **fields})).digest

    assert digest(env={"K": "1"}) == digest(env={"K": "2"}) != digest(env={"L": "1"})
    assert digest() == digest(start_timeout=5) != digest(args=[])
