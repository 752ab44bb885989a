"""Runs a program on canned replies in a child process, to see which of its texts are sent (`adopt --confirm`).

The child works in a copy of the working directory without keys, and may not connect, write elsewhere or start programs
(`guard`), which on Linux the kernel refuses too where bubblewrap works. Its models, tools and embeddings are canned
(`canned`). Nothing of the program is imported in this process.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.text import mask_secrets
from selfwire.core.values import FrozenModel, format_count, mask_controls
from selfwire.extras.adopt.inventory import ProgramEdge, ProgramText
from selfwire.extras.adopt.page import ENDS, Inventory, format_text
from selfwire.tools.sandbox.sandbox_programs import find_bubblewrap


class Sent(FrozenModel):
    """The requests of a node that carried a text.

    Attributes:
        count: of its requests with the text.
        of: all requests of the node.
    """

    node: str
    count: int
    of: int


class TextCheck(FrozenModel):
    """A text of the inventory, and where it was sent.

    Attributes:
        place: file and line, as `shop.py:4`.
        unreached: why no request carried it, and what would; "" if one did.
    """

    place: str
    text: str
    sent: tuple[Sent, ...] = ()
    unreached: str = ""


class Confirmation(FrozenModel):
    """Results of some runs on canned replies.

    Attributes:
        runs: how many were made.
        requests: how many would have been sent.
        texts: as in the inventory.
        unknown: texts of requests that the inventory has not, each after the node that sent it.
        refused: what the program tried and was not let do, each after its file and line.
        failed: how runs ended early, each after file and line.
        stopped: why no further runs were made; "" if enough were.
    """

    runs: int
    requests: int
    texts: tuple[TextCheck, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    stopped: str = ""

    def __str__(self) -> str:
        """The page of `selfwire adopt --confirm`."""
        return format_confirmation(self)


def tell_unreached(
    text: ProgramText, inventory: Inventory, visited: Collection[str], called: Collection[str], *, calls_tools: bool
) -> str:
    """Tell why no request carried a text, and what would.

    Args:
        visited: paths of the nodes that ran.
        called: names of the tools that ran.
        calls_tools: whether those that canned replies call are run.
    """
    if text.is_past:
        return "only a client that is not LangChain's sends it, and none of those was let send"
    tools = [user.removeprefix("tool ") for user in text.used_by if user.startswith("tool ")]
    nodes = [user.removeprefix("node ") for user in text.used_by if user.startswith("node ")]
    described = {tool.name for tool in inventory.tools if tool.description.split() == text.pieces[0].split()}
    if text.role == "schema":  # an agent sends it, which only a tool may ask
        tools = [] if nodes else [tool for tool in tools if tool not in described]
    if tools and not {*tools} & {*called}:
        way = "no canned reply has called it" if calls_tools else "--call-tools runs tools"
        return f"the tool {tools[0]} was not run; {way}"
    last = {part for name in visited for part in name.split("/")}
    if len(inventory.nodes) == 1 and visited:
        last.add(inventory.nodes[0].name)  # an agent, whose own nodes are called model and tools
    missed = [name for name in nodes if name.rpartition("/")[2] not in last]
    if nodes and len(missed) == len(nodes):
        return f"the node {missed[0]} was not run; {_tell_way(missed[0], inventory.edges)}"
    if nodes:
        return f"the node {nodes[0]} ran without it; a state or setting that its code asks for would bring it"
    if tools:
        return f"the tool {tools[0]} ran without it; arguments or a state that its code asks for would bring it"
    return "no node that uses it is known; it may be left over"


def _tell_way(node: str, edges: Iterable[ProgramEdge]) -> str:
    """Tell which edges lead to a node."""
    graph, _, name = node.rpartition("/")
    ways = [edge for edge in edges if edge.graph == graph and name in edge.ends]
    if not ways:
        return "no edge to it is known"
    way = min(ways, key=lambda edge: len(edge.ends))
    source = ENDS.get(way.source, way.source)
    where = f"{way.file}:{way.line}"
    if len(way.ends) == 1 and not way.router:
        return f"it comes after {source} ({where})"
    return f"{way.router or source} decides about it ({where}), and no canned reply led there; try another --question"


def format_confirmation(found: Confirmation) -> str:
    """Format what was confirmed for people: a line for each text, then what was not reached, unknown or refused."""
    reached = sum(bool(text.sent) for text in found.texts)
    runs, requests = format_count(found.runs, "run"), format_count(found.requests, "request")
    lines = [f"imported and run on canned replies: {runs}, {requests}, none of them sent"]
    sections: Mapping[str, list[tuple[str, str]]] = {
        "sent": [(t.place, f"{_quote(t.text)}  by {_list_senders(t)}") for t in found.texts if t.sent],
        "not reached": [(t.place, f"{_quote(t.text)}  {t.unreached}") for t in found.texts if not t.sent],
        "sent, but not in the inventory": [(node or "-", _quote(text)) for node, text in found.unknown],
        "not allowed": [(place or "-", what) for place, what in found.refused],
        "ended early": [(place or "-", why) for place, why in found.failed],
    }
    for title, rows in sections.items():
        width = max((len(place) for place, _ in rows), default=0)
        lines += ["", title, *(f"  {place.ljust(width)}  {what}" for place, what in rows)] if rows else []
    end = f"{reached} of {format_count(len(found.texts), 'text')} confirmed"
    return mask_controls("\n".join([*lines, "", f"{end}; {found.stopped}" if found.stopped else end]))


def _quote(text: str) -> str:
    return repr(shorten(text, 48, placeholder="..."))


def _list_senders(text: TextCheck) -> str:
    named = (f"{sent.node or 'the graph'}, {sent.count} of {format_count(sent.of, 'request')}" for sent in text.sent)
    return "; ".join(named)


QUESTION = "Can you help me with this?"
SECONDS = 120
"""Most seconds of all runs together."""
SECRET = re.compile(r"key|token|secret|passw|credential|auth|dsn|connection|_ur[il]$", re.IGNORECASE)
"""Names of variables of the environment whose values the child does not get."""
READ = re.compile(r"""(?:environ(?:\.get)?|getenv)\s*[\[(]\s*["'](\w+)["']""")
PROVIDERS = """
ANTHROPIC AZURE_OPENAI COHERE DEEPSEEK FIREWORKS GEMINI GOOGLE GROQ MISTRAL NVIDIA OPENAI OPENROUTER PPLX TAVILY
TOGETHER XAI
""".split()
DUMMY, ADDRESS = "dummy", "https://dummy.invalid"
ADDRESSED = re.compile(r"_(ur[il]|endpoint|host)$", re.IGNORECASE)
LEFT_OUT = (".git", ".venv", "venv", "node_modules", "__pycache__", ".*_cache", ".tox", ".nox")
LARGE = 1 << 20
"""Bytes of a file from which on the copy has a link to it."""
MOST_FILES = 5_000
REPORT, SPEC, PROGRAM, TEMPORARY = "report.jsonl", "spec.json", "program", "tmp"
"""Names in the folder of a child."""


def start_child(folder: Path, place: Path, environment: Mapping[str, str]) -> str:
    """Run the child process of a folder to its end; returns how it ended, "" if well."""
    try:
        done = subprocess.run(
            [*confine(folder), sys.executable, "-P", "-m", "selfwire.extras.adopt.confirm_child", str(folder)],
            cwd=place,
            env=environment,
            timeout=SECONDS,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {SECONDS} s"
    return f"the process ended ({done.returncode}): {_last_line(done.stderr)}" if done.returncode else ""


def confine(folder: Path) -> tuple[str, ...]:
    """Find the command under which a program writes below a folder only, and has no network and no other processes.

    It is empty where bubblewrap does not work: there `guard` alone refuses what it sees.
    """
    bwrap = find_bubblewrap()
    command = (
        *(bwrap or "", "--unshare-user-try", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--bind", str(folder), str(folder), "--"),
    )
    works = bwrap and subprocess.run([*command, sys.executable, "-c", ""], capture_output=True, check=False)
    return command if works and works.returncode == 0 else ()


def confirm_program(
    inventory: Inventory,
    question: str = QUESTION,
    template: Any = None,
    *,
    calls_tools: bool = False,
    run_child: Callable[[Path, Path, Mapping[str, str]], str] = start_child,
) -> Confirmation:
    """Import a program and run it on canned replies, in a process that can send nothing.

    Args:
        template: the graph's input, plain JSON with {question} in a text; None to find it by the graph's schema.
        calls_tools: whether the program's own tools are run; else each gives a canned result.

    Raises:
        ConfigError: the program cannot be imported or made; the message has file, line and cause.
    """
    with tempfile.TemporaryDirectory(prefix="selfwire-confirm-") as name:
        folder = Path(name).resolve()
        place = _copy_program(Path.cwd(), folder / PROGRAM)
        (folder / TEMPORARY).mkdir()
        spec = {"inventory": inventory.model_dump(mode="json"), "question": question, "template": template}
        (folder / SPEC).write_text(json.dumps({**spec, "calls_tools": calls_tools}), encoding="utf-8")
        ended = run_child(folder, place, _make_environment(inventory, folder))
        return _read_report(inventory, [*_read_lines(folder / REPORT)], ended, calls_tools=calls_tools)


def _copy_program(here: Path, to: Path) -> Path:
    """Copy a program's folder, with links to its large files; one with very many files is run where it is."""
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    if _count_files(here) > MOST_FILES:
        return here

    def copy(source: str, target: str) -> None:
        if Path(source).stat().st_size < LARGE:
            shutil.copy2(source, target)
        else:
            Path(target).symlink_to(source)

    with suppress(shutil.Error):  # files that cannot be read
        shutil.copytree(here, to, symlinks=True, ignore=ignore, copy_function=copy)
    return to


def _count_files(folder: Path) -> int:
    count, ignore = 0, shutil.ignore_patterns(*LEFT_OUT)
    for _, folders, files in os.walk(folder):
        left_out = ignore("", folders)
        folders[:] = [name for name in folders if name not in left_out]
        count += len(files)
        if count > MOST_FILES:
            break
    return count


def _make_environment(inventory: Inventory, folder: Path) -> dict[str, str]:
    """The variables that a child gets: no keys, but dummies in their place."""
    passed = {
        name: value for name, value in os.environ.items() if not SECRET.search(name) and mask_secrets(value) == value
    }
    read = {
        name
        for file in inventory.files
        for name in READ.findall(Path(file).read_text(encoding="utf-8", errors="replace"))
        if SECRET.search(name)
    }
    keys = {f"{provider}_API_KEY" for provider in PROVIDERS}
    return {
        **passed,
        **{name: ADDRESS if ADDRESSED.search(name) else DUMMY for name in sorted(read | keys)},
        "AZURE_OPENAI_ENDPOINT": ADDRESS,
        "OPENAI_API_VERSION": "2024-10-21",
        "LANGSMITH_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "TMPDIR": str(folder / TEMPORARY),
    }


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:  # the last line of a process that was stopped
            return


def _check_texts(inventory: Inventory, events: list[Mapping[str, Any]], *, calls_tools: bool) -> Iterator[TextCheck]:
    """Tell of each text of an inventory where it was sent, or why it was not."""
    requests = [event for event in events if event["kind"] == "request"]
    asked = Counter(request["node"] for request in requests)
    visited = {event["node"] for event in events if event["kind"] in ("request", "node")}
    called = {event["name"] for event in events if event["kind"] == "tool"}
    for number, text in enumerate(inventory.texts):
        carried = Counter(request["node"] for request in requests if number in request["found"])
        sent = tuple(Sent(node=node, count=count, of=asked[node]) for node, count in carried.items())
        why = "" if sent else tell_unreached(text, inventory, visited, called, calls_tools=calls_tools)
        yield TextCheck(place=f"{text.file}:{text.line}", text=format_text(text), sent=sent, unreached=why)


def _read_report(
    inventory: Inventory, events: list[Mapping[str, Any]], ended: str, *, calls_tools: bool
) -> Confirmation:
    """Read what a child has reported.

    Raises:
        ConfigError: the program could not be imported, or not asked.
    """
    kinds, has_ended_well = Counter(event["kind"] for event in events), any(event.get("well") for event in events)
    pairs: dict[str, dict[tuple[str, str], None]] = {"unknown": {}, "refused": {}, "failed": {}}
    for event in events:
        if event["kind"] == "fault":
            raise ConfigError(event["message"])
        if event["kind"] in pairs and not (has_ended_well and event.get("made_up")):
            pairs[event["kind"]][event["place"], event["what"]] = None
    if not kinds["imported"]:
        way_out = "; import it by itself to see more: python -c 'import ...'"
        raise ConfigError(
            f"graph {inventory.program!r} cannot be imported: {ended or 'the process said nothing'}{way_out}"
        )
    return Confirmation(
        runs=kinds["run"],
        requests=kinds["request"],
        texts=tuple(_check_texts(inventory, events, calls_tools=calls_tools)),
        stopped=ended,
        **{kind: tuple(found) for kind, found in pairs.items()},
    )
