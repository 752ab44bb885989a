"""Tools of MCP servers: a file names the servers, and agents call their tools as any others.

A server runs once in a process that asks, for as long as its tools are held there. One that breaks off or hangs is
started again at the next call; if it breaks off again before it has answered a call, it is left alone. All that it
returns is text of a stranger: arguments are checked against its schema, results are cut, secrets are masked.
"""

import asyncio
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from pydantic import AliasChoices, Field, ValidationError

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError, format_faults, format_first_fault
from selfwire.core.scope import Scope
from selfwire.core.text import mask_address, mask_json, mask_keys, mask_secrets, register_secret
from selfwire.core.values import FrozenMap, FrozenModel, fingerprint, read_file_text, replace_surrogates, to_plain_json
from selfwire.models.sync import CallTimeoutError, LoopBlockedError, get_own_loop, run_on_foreign_loop, run_sync
from selfwire.tools.own import cut_result

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from mcp import ClientSession
    from mcp.types import CallToolResult

MCP_SERVERS = "mcpServers"
"""The key of a file under which the servers stand by name."""
PATIENCE = 5.0
"""Most seconds in which a server that has missed a time limit answers a ping, else it is started again."""
END = 6.0
"""Most seconds that the end of a server is waited for."""
TRIES = 2
"""Times that a server may break off without an answer between them."""
Answer = TypeVar("Answer")
CLOSED = "Connection closed"
"""Message of the error in which `mcp` ends the calls of a session that has ended."""
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class McpServer(FrozenModel):
    """A server as a file names it: a program that is started, or an address.

    Attributes:
        env: environment of the program, beside HOME, LOGNAME, PATH, SHELL, TERM and USER.
        cwd: the program's folder; by default that of the file.
        transport: of an address; "type" is another name for it.
        timeout: most seconds of a call.
        start_timeout: most seconds in which the server starts and lists its tools.
        disabled: whether the server is left out.
    """

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=FrozenMap)
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^(https?://|\$\{)")
    headers: Mapping[str, str] = Field(default_factory=FrozenMap)
    transport: Literal["stdio", "http", "streamable_http", "streamable-http", "sse"] | None = Field(
        default=None, validation_alias=AliasChoices("transport", "type")
    )
    timeout: float = Field(default=30.0, gt=0, le=600)
    start_timeout: float = Field(default=60.0, gt=0, le=600)
    disabled: bool = False

    def find_fault(self) -> str:
        """Find what is wrong with the fields together; "" if nothing is."""
        if (self.command is None) == (self.url is None):
            return "give either command, for a program, or url, for an address"
        if self.command is None and (self.args or self.env or self.cwd or self.transport == "stdio"):
            return "args, env, cwd and transport stdio are for a command, and it has a url"
        if self.url is None and (self.headers or self.transport not in (None, "stdio")):
            return "headers and other transports than stdio are for a url, and it has a command"
        return ""


class McpFile(NamedTuple):
    """A file of servers.

    Attributes:
        servers: by name, as they stand in the file; without those that are disabled.
    """

    path: Path
    servers: Mapping[str, McpServer]

    @property
    def digest(self) -> str:
        """Fingerprint of the servers, without the values of `env` and `headers` and the time limit of a start."""
        shown = {
            name: server.model_dump(mode="json", exclude={"start_timeout"}) for name, server in self.servers.items()
        }
        secret = ("env", "headers")
        return fingerprint(
            {
                name: {field: sorted(value) if field in secret else value for field, value in fields.items()}
                for name, fields in shown.items()
            }
        )

    def expand(self) -> dict[str, McpServer]:
        """Put values of the environment in place of `${NAME}`, and mask those of `env` and `headers` from now on.

        Raises:
            ConfigError: a variable is not set, or a program is not found.
        """
        found = {}
        for name, server in self.servers.items():
            place = f"{self.path}: server {name!r}"
            fields = {
                field: _expand(value, f"{place}, {field}")
                for field, value in server.model_dump(exclude_none=True).items()
            }
            if server.url is None:
                fields["cwd"] = str(self.path.parent / (server.cwd or ""))
            found[name] = McpServer.model_validate(fields)
            parts = (part for value in found[name].headers.values() for part in value.split())  # as in "Bearer KEY"
            for value in (*found[name].env.values(), *parts):
                if "://" in value:
                    mask_address(value)
                elif not os.path.exists(value.partition(os.pathsep)[0]):
                    register_secret(value)
            if server.url is None:
                _refuse_missing_program(found[name], place)
            else:
                mask_address(str(found[name].url))
        return found


def read_servers(path: str | Path) -> McpFile:
    """Read a file of servers: `{"mcpServers": {"NAME": {"command": ..., "args": [...]}}}`; starts none of them.

    Raises:
        ConfigError: it cannot be read, or a field cannot be used; the message has no value of the file.
    """
    whole = Path(path).expanduser().resolve()
    try:
        given = json.loads(read_file_text(whole))
    except OSError as error:
        raise ConfigError(f"the file of MCP servers {whole} cannot be read: {error.strerror}; name another") from None
    except ValueError as error:
        raise ConfigError(f"the file of MCP servers {whole} is no JSON: {error}") from None
    servers = given.get(MCP_SERVERS) if isinstance(given, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'{whole} has no MCP servers; write {{"{MCP_SERVERS}": {{"NAME": {{"command": "..."}}}}}}')
    found = {name: _read_server(fields, f"{whole}: server {name!r}") for name, fields in servers.items()}
    used = {name: server for name, server in found.items() if not server.disabled}
    if not used:
        raise ConfigError(f"{whole} names no MCP server that is not disabled")
    return McpFile(whole, used)


def _read_server(fields: object, place: str) -> McpServer:
    try:
        server = McpServer.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(
            f"{place}: {format_faults(error)}; its fields are {', '.join(McpServer.model_fields)}"
        ) from None
    if fault := server.find_fault():
        raise ConfigError(f"{place}: {fault}")
    return server


def _expand(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _expand(item, f"{place}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_expand(item, place) for item in value]
    if not isinstance(value, str):
        return value
    if unset := [name for name in _VARIABLE.findall(value) if name not in os.environ]:
        raise ConfigError(f"{place}: the environment variable {unset[0]!r} is not set; set it, or write the value")
    return _VARIABLE.sub(lambda found: os.environ[found[1]], value)


def _refuse_missing_program(server: McpServer, place: str) -> None:
    command = str(server.command)
    path = server.env.get("PATH", os.environ.get("PATH"))
    if shutil.which(os.path.join(server.cwd or "", command) if "/" in command else command, path=path) is None:
        raise ConfigError(f"{place}: its command {command!r} is no program here; install it, or give its whole path")


class McpTool:
    """A tool of a server, under a name of its own."""

    def __init__(self, tool: "BaseTool", spec: ToolSpec) -> None:
        self.tool, self.spec = tool, spec

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Call the tool and return the text of its result.

        Raises:
            ToolError: the arguments do not fit, the tool failed, or its server broke off or did not answer in time.
        """
        from langchain_core.tools import ToolException

        self._check(arguments)
        try:
            blocks = await self.tool.ainvoke({WHOLE: dict(arguments)})
        except (ToolException, ToolError) as error:
            raise ToolError(f"{self.spec.name} failed: {error}") from None
        return "".join(str(block["text"]) for block in blocks)

    def _check(self, arguments: Mapping[str, Any]) -> None:
        try:
            faults = [
                f"{'.'.join(map(str, fault.absolute_path)) or 'arguments'}: {fault.message}"
                for fault in _make_validator(to_plain_json(self.spec.parameters)).iter_errors(to_plain_json(arguments))
            ]
        except Exception:  # noqa: BLE001 - a stranger's schema may be anything
            return  # it is no schema, or takes too long; the server checks for itself
        if faults:
            raise ToolError(f"{self.spec.name} refused its input: {cut_result('; '.join(faults[:5]))}")


def _make_validator(schema: dict[str, Any]) -> Any:
    """Make a validator of a stranger's schema, which fetches nothing and ends soon.

    It leaves out patterns, as matching one can take for ever, and `unevaluatedItems`, whose check doubles with each
    level. It raises a RecursionError after `MOST_REFS` references, without which the time that it takes is bounded by
    the sizes of schema and arguments. A `$schema` inside the schema changes none of this.
    """
    from jsonschema import validators
    from referencing import Registry

    kind = validators.validator_for(schema)
    followed = count(1)

    def follow(check: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*given: Any) -> Any:
            if next(followed) > MOST_REFS:
                raise RecursionError
            return check(*given)

        return checked

    def check_others(validator: Any, value: Any, instance: Any, whole: Any) -> Any:
        check = kind.VALIDATORS["additionalProperties"]
        return () if "patternProperties" in whole else check(validator, value, instance, whole)

    refs = {name: follow(check) for name, check in kind.VALIDATORS.items() if name.lower().endswith("ref")}
    left_out: dict[str, Any] = dict.fromkeys(LEFT_OUT, lambda *_: ())
    bounded: Any = validators.extend(kind, {**refs, **left_out, "additionalProperties": check_others})

    def evolve(validator: Any, **changes: Any) -> Any:
        fields = [field for field in bounded.__attrs_attrs__ if field.init]
        return bounded(**{field.alias: getattr(validator, field.name) for field in fields} | changes)

    bounded.evolve = evolve
    return bounded(schema, registry=Registry())


LEFT_OUT = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")
"""Keywords of a schema that are not checked; `additionalProperties` is not beside `patternProperties`."""
READ = ("title", "description", "default", "examples", "$comment")
"""Keywords of a schema that are only read, while names and values are sent back."""
CHOICES = ("allOf", "anyOf", "oneOf")
"""Keywords of a list of schemas."""
MOST_REFS = 10_000
"""References that are followed in the check of a call's arguments."""
LARGEST_MESSAGE = 2**25
"""Most bytes of a message of a server at an address."""
MOST_TOOLS = 256
"""Tools of a server."""
LONGEST_SCHEMA = 100_000
"""Characters of a tool's schema, which is sent with each request."""
WHOLE = "arguments"
"""The one argument of the adapter's tools here, as the adapter would keep arguments called `config` and `runtime`."""


class ServerHandle:
    """A server that runs for as long as its tools are held; to the adapter it is a session of the `mcp` package."""

    def __init__(self, name: str, server: McpServer) -> None:
        self._connection = _Connection(name, server)
        self.server = server
        weakref.finalize(self, self._connection.end)

    async def list_tools(self, cursor: str | None = None) -> Any:
        """List the server's tools, from any event loop; starts the server.

        Raises:
            ToolError: it does not start.
        """
        return await run_on_foreign_loop(
            self._connection.loop, self.server.start_timeout, self._connection.list_tools, cursor
        )

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], progress_callback: object = None
    ) -> "CallToolResult":
        """Call a tool within the server's time limit, from any event loop.

        Raises:
            ToolError: the server broke off, refused the call or did not answer in time.
        """
        connection, seconds = self._connection, self.server.timeout
        try:
            found = await run_on_foreign_loop(connection.loop, seconds, connection.call, name, arguments[WHOLE])
        except (CallTimeoutError, LoopBlockedError):
            asyncio.run_coroutine_threadsafe(connection.check(), connection.loop)
            raise ToolError(f"no answer within {seconds:g} seconds{connection.fault}") from None
        return _to_text(found)

    def rest(self) -> None:
        """End the server until the next call, unless it has calls to answer; waits as the end of the handle does."""
        self._connection.wait(self._connection.rest())


class _Connection:
    """The session with a server, on an event loop of its own; opened on the first use, and anew after it broke off."""

    def __init__(self, name: str, server: McpServer) -> None:
        self.name, self.server = name, server
        self._own_loop = get_own_loop()
        self.loop = self._own_loop.__enter__()
        self._process = os.getpid()
        self._opened: asyncio.Task[ClientSession] | None = None
        self._ready: asyncio.Future[ClientSession] | None = None
        self._serving: asyncio.Task[None] | None = None
        self.fault = ""
        """What was wrong with the server since its last answer, as the end of a message."""
        self._stop = asyncio.Event()
        self._breaks = self._calls = 0
        self._said = tempfile.TemporaryFile() if server.url is None else None

    async def list_tools(self, cursor: str | None) -> Any:
        from mcp import McpError
        from mcp.types import PaginatedRequestParams

        self._calls += 1
        try:
            session = await asyncio.shield(self._open())
            return await self._ask_while_served(session.list_tools(params=PaginatedRequestParams(cursor=cursor)))
        except McpError:
            if not self.fault:
                raise
            raise ToolError(f"the server {self.name!r} ended while it listed its tools{self.fault}") from None
        finally:
            self._calls -= 1

    async def call(self, name: str, arguments: Mapping[str, Any]) -> "CallToolResult":
        """Call a tool; a session that had broken off before the call is opened anew for it.

        The session's own `call_tool` would check the result by the server's schema, whose patterns may hold the
        interpreter for ever.
        """
        from anyio import BrokenResourceError, ClosedResourceError
        from mcp import McpError
        from mcp.types import CONNECTION_CLOSED, CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest

        asked = CallToolRequest(params=CallToolRequestParams(name=name, arguments=dict(arguments)))
        while True:
            opened = self._open()
            session = await asyncio.shield(opened)  # it goes on opening if this call reaches its time limit
            self._calls += 1
            try:
                found = await self._ask_while_served(session.send_request(ClientRequest(asked), CallToolResult))
            except (ClosedResourceError, BrokenResourceError):  # nothing was sent
                await self._break_off(opened)
                continue
            except McpError as error:
                if (error.error.code, error.error.message) == (CONNECTION_CLOSED, CLOSED):  # servers use the code too
                    await self._break_off(opened)
                    raise ToolError(f"the server {self.name!r} ended during the call{self.fault}") from None
                raise ToolError(cut_result(_clean(error.error.message))) from None
            except Exception as error:  # noqa: BLE001 - whatever a stranger's server answers
                raise ToolError(self._describe(error)) from None
            finally:
                self._calls -= 1
            self._breaks, self.fault = 0, ""
            return found

    async def _ask_while_served(self, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """Ask the server, and answer for a session that ends meanwhile."""
        from mcp import McpError
        from mcp.types import CONNECTION_CLOSED, ErrorData

        assert self._serving is not None, "there is a session"
        calling = asyncio.ensure_future(asking)
        try:
            await asyncio.wait({calling, self._serving}, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise McpError(ErrorData(code=CONNECTION_CLOSED, message=CLOSED))
            return calling.result()
        finally:
            calling.cancel()

    async def check(self) -> None:
        """Have later calls wait until the server has answered a ping, or has been started again."""
        if self._opened is not None and self._opened.done() and not self._opened.exception():
            self._opened = _begin(self._ping_or_restart(self._opened.result()))

    def end(self) -> None:
        """End the server; waits for that unless an event loop would be blocked."""
        if os.getpid() != self._process:
            return  # in a fork the server is the parent's
        self.wait(self._end(), lambda _: self._own_loop.__exit__(None, None, None))

    def wait(self, ending: Coroutine[Any, Any, None], then: Callable[[object], object] = lambda _: None) -> None:
        """Run a coroutine on the loop of this connection; waits for it unless an event loop would be blocked."""
        ended = asyncio.run_coroutine_threadsafe(ending, self.loop)
        ended.add_done_callback(then)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with suppress(TimeoutError):
                ended.result(2 * END)

    async def rest(self) -> None:
        """End the session until the next call, unless a call waits for an answer."""
        if self._calls == 0 and self._opened is not None:
            self._opened.cancel()
            self._opened = None
            await self._stop_serving()

    def _open(self) -> "asyncio.Task[ClientSession]":
        opened = self._opened
        if opened is None or (opened.done() and (opened.cancelled() or opened.exception())):
            self._opened = opened = _begin(self._start())
        return opened

    async def _break_off(self, opened: "asyncio.Task[ClientSession]") -> None:
        """Forget a session that broke off, unless another call has done so."""
        if self._opened is opened:
            self._opened, self._breaks = None, self._breaks + 1
            await self._stop_serving()

    async def _ping_or_restart(self, session: "ClientSession") -> "ClientSession":
        try:
            async with asyncio.timeout(min(PATIENCE, self.server.timeout / 2)):
                await session.send_ping()
            return session
        except Exception:  # noqa: BLE001 - it is of no use, however it says so
            self._breaks += 1
            await self._stop_serving()
            return await self._start()

    async def _start(self) -> "ClientSession":
        if self._breaks >= TRIES and self.server.url is None:
            raise ToolError(f"the server {self.name!r} broke off {TRIES} times without an answer, and stays off")
        if sys.platform == "win32" and self.server.url is None:
            raise ToolError(
                f"the server {self.name!r} cannot be started on Windows; start it yourself, and give its `url`"
                " in place of `command`"
            )
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._ready, self.fault = ready, ""
        self._stop = asyncio.Event()
        self._serving = asyncio.ensure_future(self._serve(ready, self._stop))
        await asyncio.wait({ready}, timeout=self.server.start_timeout)
        if ready.done() and not ready.exception():
            return ready.result()
        self._breaks += 1
        silent = f"no answer within {self.server.start_timeout:g} seconds"
        why = self._describe(ready.exception()) if ready.done() else silent
        await self._stop_serving()
        raise ToolError(f"the server {self.name!r} does not start: {why}")

    async def _stop_serving(self) -> None:
        if (serving := self._serving) is not None:  # another call may start the server anew while this one ends
            self._stop.set()
            if self._ready is not None and (not self._ready.done() or self._ready.exception()):
                serving.cancel()  # it waits for the server's first answer
            await asyncio.wait({serving}, timeout=END)
            serving.cancel()

    async def _end(self) -> None:
        if self._opened is not None:
            self._opened.cancel()
        await self._stop_serving()
        if self._said is not None:
            self._said.close()

    async def _serve(self, ready: "asyncio.Future[ClientSession]", stop: asyncio.Event) -> None:
        """Hold a session open until it is to stop or breaks off."""
        try:
            async with self._connect(stop) as session:
                await session.initialize()
                ready.set_result(session)
                await stop.wait()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's server answers
            if not ready.done():
                ready.set_exception(error)
            self.fault = f": {_describe_fault(error)}"

    @asynccontextmanager
    async def _connect(self, stop: asyncio.Event) -> "AsyncIterator[ClientSession]":
        """Connect; the session ends with the program, as a call that just misses it would wait in vain."""
        from anyio import create_memory_object_stream
        from langchain_mcp_adapters.sessions import Connection, create_session
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        server = self.server
        if server.url is not None:
            transport = "sse" if server.transport == "sse" else "streamable_http"
            reached: dict[str, Any] = {"transport": transport, "url": server.url, "headers": dict(server.headers)}
            reached |= {"httpx_client_factory": _make_client, "session_kwargs": {"message_handler": self._note_unread}}
            async with create_session(cast(Connection, reached)) as session:
                yield session
            return
        starter = [str(Path(__file__).with_name("mcp_start.py")), str(os.getpid()), str(server.command), *server.args]
        program = StdioServerParameters(
            command=sys.executable,
            args=["-I", "-S", *starter],
            env=dict(server.env),
            cwd=server.cwd,
            encoding_error_handler="replace",
        )
        async with stdio_client(program, cast(Any, self._said)) as (said, asked):
            passed_on, heard = create_memory_object_stream[Any]()

            async def listen() -> None:
                async with passed_on:
                    async for message in said:
                        await passed_on.send(message)
                stop.set()

            listening = asyncio.ensure_future(listen())
            try:
                async with ClientSession(heard, asked) as session:
                    yield session
            finally:
                listening.cancel()
                passed_on.close()
                heard.close()

    async def _note_unread(self, message: object) -> None:
        """Note what a server at an address sends and cannot be read; at its start it has failed then."""
        if isinstance(message, Exception) and not isinstance(message, RuntimeError):  # that is an answer too late
            self.fault = f", and what it sent cannot be read: {_describe_fault(message)}"
            if self._ready is not None and not self._ready.done():
                self._ready.set_exception(message)

    def _describe(self, error: BaseException | None) -> str:
        reason = _describe_fault(error)
        said = b"" if self._said is None else os.pread(self._said.fileno(), 4000, 0)
        last = _clean(said.decode(errors="replace")).strip().rpartition("\n")[2]
        return f"{reason}; the last line of its errors is {last[-300:]!r}" if last else reason


def _make_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Make a client for a server at an address, which takes no packed body and bounds its messages."""
    import httpx

    class BoundedMessages(httpx.AsyncByteStream):
        def __init__(self, body: Any, is_stream: bool) -> None:
            self._body, self._is_stream = body, is_stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._body:
                if (size := size + len(piece)) > LARGEST_MESSAGE:
                    raise httpx.ReadError(f"a message of more than {LARGEST_MESSAGE // 2**20} MiB")
                yield piece
                if self._is_stream and (b"\n\n" in piece or b"\r\n\r\n" in piece):  # the end of a message
                    size = 0

        async def aclose(self) -> None:
            await self._body.aclose()

    async def bound(response: httpx.Response) -> None:
        if (coding := response.headers.get("content-encoding", "identity")) != "identity":
            raise httpx.ReadError(f"a body that is packed by {coding[:40]!r}, where none was asked for")
        response.stream = BoundedMessages(response.stream, response.request.method == "GET" and response.is_success)

    asked = {**(headers or {}), "Accept-Encoding": "identity"}
    return httpx.AsyncClient(headers=asked, timeout=timeout, auth=auth, event_hooks={"response": [bound]})


def _begin(opening: "Coroutine[Any, Any, ClientSession]") -> "asyncio.Task[ClientSession]":
    """Make a task that opens a session; asyncio does not warn where its error is not read."""
    task = asyncio.ensure_future(opening)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def _describe_fault(error: BaseException | None) -> str:
    """Describe in one line an error that a server has caused."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return _clean(format_first_fault(error))[:300]
    text = " ".join(str(error).partition(" for url ")[0].split())  # an address may hold a key
    text = text or CLOSED  # anyio's errors of a stream that has ended are without a word
    status = getattr(getattr(error, "response", None), "status_code", None)
    way_out = "; check the key in its headers" if status in (401, 403) else ""
    return _clean(f"{type(error).__name__}: {text}")[:300] + way_out


def _clean(text: str) -> str:
    return mask_secrets(replace_surrogates(text))


def _to_text(found: "CallToolResult") -> "CallToolResult":
    """Make one text of a result, as agents read it; pictures, sounds and files are named, not shown."""
    from mcp.types import CallToolResult, TextContent

    parts = [_describe_block(block) for block in found.content]
    if not parts and found.structuredContent is not None:
        parts = [json.dumps(found.structuredContent, ensure_ascii=False)]
    text = cut_result(_clean("\n".join(parts)))
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=found.isError)


def _describe_block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return f"[a file that is no text, {block.resource.uri}]" if text is None else str(text)
    return f"[{block.type} of type {block.mimeType}, which is not shown]"


_HANDLES: "weakref.WeakValueDictionary[str, ServerHandle]" = weakref.WeakValueDictionary()
"""Handles of running servers by all that they were started with, so that a process starts each once."""
_STARTING = threading.Lock()


def load_server_tools(paths: Sequence[str], taken: Collection[str] = ()) -> list[McpTool]:
    """Start the servers of files, unless they run in this process, and load their tools; blocks.

    A name that two tools share, or that is taken, gets the server's name before it; if that is not enough, a hash of
    the tool's whole name behind it, which is the same whatever else is listed.

    Raises:
        ConfigError: the extra is missing, a file cannot be used, or a server does not start.
    """
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"MCP servers need the extra 'mcp': pip install 'selfwire[mcp]' ({error})") from None
    if not logging.getLogger("mcp").handlers:
        logging.getLogger("mcp").addHandler(logging.NullHandler())  # else warnings with texts of servers are shown
    files = [read_servers(path) for path in paths]
    with _STARTING:
        found = [loaded for file in files for loaded in run_sync(_load_tools(file.path, _start(file)))]
    names = [spec.name for _, _, spec in found]
    counts = Counter([*taken, *names])
    names = [
        _to_name(f"{server}_{tool.name}") if counts[name] > 1 else name
        for name, (server, tool, _) in zip(names, found, strict=True)
    ]
    counts, named = Counter([*taken, *names]), dict[str, McpTool]()
    for name, (_, tool, spec) in zip(names, found, strict=True):
        marked = f"{name[:50]}_{fingerprint(tool.name)[:8]}" if counts[name] > 1 else name
        numbered = (f"{marked}_{number}" for number in count(2))  # servers of two files that share a name
        free = next(free for free in chain([marked], numbered) if free not in {*taken, *named})
        named[free] = McpTool(tool, spec.replace(name=free))
    return [*named.values()]


def rest_servers() -> None:
    """End the servers that this process has started, until a tool of theirs is called again."""
    for handle in list(_HANDLES.values()):
        handle.rest()


def _start(file: McpFile) -> dict[str, ServerHandle]:
    """Make the handles of a file's servers, by name, or find those that this process has; blocks."""
    found = {}
    for name, server in file.expand().items():
        key = fingerprint([str(file.path), name, server.model_dump(mode="json")])
        found[name] = _HANDLES[key] = _HANDLES.get(key) or ServerHandle(name, server)
    return found


async def _load_tools(path: Path, handles: Mapping[str, ServerHandle]) -> "list[tuple[str, BaseTool, ToolSpec]]":
    """Start servers at the same time, and load their tools, each with the name of its server before it."""
    from langchain_mcp_adapters.tools import load_mcp_tools

    async def load(name: str, handle: ServerHandle) -> "list[tuple[str, BaseTool, ToolSpec]]":
        try:
            async with asyncio.timeout(handle.server.start_timeout):
                tools = await load_mcp_tools(cast(Any, handle), handle_tool_errors=False)
            found = [(name, tool, _make_spec(tool)) for tool in tools]
        except ToolError as error:
            raise ConfigError(f"{path}: {error}") from None
        except (CallTimeoutError, LoopBlockedError, TimeoutError):
            raise ConfigError(
                f"{path}: the server {name!r} has not started and listed its tools within "
                f"{handle.server.start_timeout:g} seconds; see if it runs by itself, or raise its start_timeout"
            ) from None
        except Exception as error:  # noqa: BLE001 - whatever a stranger's server answers
            raise ConfigError(
                f"{path}: the tools of the server {name!r} cannot be read: {_describe_fault(error)}; mend what it "
                'lists, or set "disabled": true'
            ) from None
        if not found:
            raise ConfigError(f'{path}: the server {name!r} lists no tools; see its settings, or set "disabled": true')
        if len(found) > MOST_TOOLS:
            raise ConfigError(
                f"{path}: the server {name!r} has {len(found):,} tools, and {MOST_TOOLS} at most are sent to a model; "
                'have it list fewer, or set "disabled": true'
            )
        for _, tool, spec in found:
            if (length := len(json.dumps(tool.args_schema, ensure_ascii=False))) > LONGEST_SCHEMA:
                raise ConfigError(
                    f"{path}: the schema of tool {spec.name!r} of the server {name!r} has {length:,} "
                    f"characters, and {LONGEST_SCHEMA:,} at most are sent with each request; shorten it, or set "
                    '"disabled": true'
                )
        return found

    loaded = await asyncio.gather(*(load(name, handle) for name, handle in handles.items()))
    return [*chain.from_iterable(loaded)]


def _make_spec(tool: "BaseTool") -> ToolSpec:
    """Make a tool's spec from what its server says of it.

    Providers refuse a schema that is of no object, or has a choice of schemas at its top; it becomes one of an object
    with the properties of all of them.

    Raises:
        ValueError, TypeError: the schema is none.
    """
    given, properties = cast(dict[str, Any], tool.args_schema), dict[str, Any]()
    choices = [part for name in CHOICES for part in given.get(name) or () if isinstance(part, Mapping)]
    for part in (*choices, given):
        properties |= part.get("properties") or {}
    left_out = (*CHOICES, "enum", "not", "type", "properties")
    kept = {name: value for name, value in given.items() if value is not None and name not in left_out}
    return ToolSpec(
        name=_to_name(tool.name),
        description=cut_result(_clean(tool.description)),
        parameters=_mask_read_texts(mask_keys({"type": "object", "properties": properties, **kept})),
    )


def _mask_read_texts(schema: Any) -> Any:
    """Copy a schema with all secrets masked in what is only read.

    Elsewhere a short one, such as the name of a table in `env`, may be that of an argument, or one of its values.
    """
    if not isinstance(schema, Mapping):
        return [_mask_read_texts(item) for item in schema] if isinstance(schema, list) else schema
    return {
        name: mask_json(item) if name in READ and not isinstance(item, Mapping) else _mask_read_texts(item)
        for name, item in schema.items()
    }


def _to_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text).lstrip("_-")[:64] or "tool"
