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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.text import mask_secrets
from selfwire.extras.adopt.confirmation import Confirmation, RequestLog, check_texts
from selfwire.extras.adopt.page import Inventory
from selfwire.tools.sandbox.sandbox_programs import find_bubblewrap

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
    count = 0
    ignore = shutil.ignore_patterns(*LEFT_OUT)
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


def _read_report(
    inventory: Inventory, events: list[Mapping[str, Any]], ended: str, *, calls_tools: bool
) -> Confirmation:
    """Read what a child has reported.

    Raises:
        ConfigError: the program could not be imported, or not asked.
    """
    log, visited, called = RequestLog(), set[str](), set[str]()
    pairs: dict[str, dict[tuple[str, str], None]] = {"unknown": {}, "refused": {}, "failed": {}}
    runs, imported, has_ended_well = 0, False, any(event.get("well") for event in events)
    for event in events:
        match event["kind"]:
            case "fault":
                raise ConfigError(event["message"])
            case "imported":
                imported = True
            case "request":
                log.add(event["node"], event["found"])
                visited.add(event["node"])
            case "node":
                visited.add(event["node"])
            case "tool":
                called.add(event["name"])
            case "run":
                runs += 1
            case "failed" if has_ended_well and event["made_up"]:
                pass
            case kind:
                pairs[kind][event["place"], event["what"]] = None
    if not imported:
        way_out = "; import it by itself to see more: python -c 'import ...'"
        raise ConfigError(
            f"graph {inventory.program!r} cannot be imported: {ended or 'the process said nothing'}{way_out}"
        )
    return Confirmation(
        runs=runs,
        requests=log.total,
        texts=check_texts(inventory, log, visited, called, calls_tools=calls_tools),
        stopped=ended,
        **{kind: tuple(found) for kind, found in pairs.items()},
    )
