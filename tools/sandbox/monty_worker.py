"""Runs programs in Monty, one after another; a process of its own, never imported.

Each line of standard input is a request: {"act": "run" or "call", "code", "given", "limits"}, where `given` is the
input of a program or the arguments of a call. Each line of standard output is the resulting execution. Every request
gets a fresh interpreter process, whose limits the kernel enforces too, if the platform supports that. At the end of
standard input, as when the parent process ends, this process and its interpreter end.
"""

import builtins
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

MEBIBYTE = 2**20
SPARE = 256 * MEBIBYTE
"""Bytes of address space for the interpreter process, in addition to the program's memory."""
SHOWN = 20
"""Lines of a traceback, counted from its end."""
NAME = "<python-input-0>"
"""Monty's file name for the first text of a session."""
CALL = """
try:
    tool_function
except NameError:
    raise NameError("the source defines no function tool_function") from None
format_result(tool_function(**arguments))
"""
PARTIAL = re.compile(r"(NotImplemented|Runtime)Error: .*(monty|supported)|(ModuleNotFound|Import|Attribute)Error")
"""Errors that Monty raises for unsupported parts of Python; unsupported built-in functions raise NameError."""
HINT = "(This ran in Monty, which knows a part of Python only; the sandbox bubblewrap, on Linux, runs all of it.)"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows either ends it at once
KILLED = 137


class Output:
    """The output of a program, up to a limit for each stream; a program that prints more is stopped."""

    def __init__(self, most: int, stop: Callable[[], None]) -> None:
        self._most, self._stop = most, stop
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.full = False

    def __call__(self, stream: str, text: str) -> None:
        """Store a part of a stream."""
        kept, data = self._kept[stream], text.encode("utf-8", "replace")
        if len(kept) + len(data) > self._most and not self.full:
            self.full = True
            self._stop()
        kept += data[: self._most - len(kept)]

    def get(self, stream: str) -> str:
        """Return the stored part of a stream."""
        return bytes(self._kept[stream]).decode("utf-8", "replace")


class Interpreters:
    """A source of fresh interpreter processes; `kill` ends the running interpreter, from any thread."""

    def __init__(self, monty: Any, result_text: str) -> None:
        self._monty, self._result_text = monty, result_text
        self._pool = monty.Monty(min_processes=1, max_processes=1, max_checkouts_per_worker=1)
        self._pool.__enter__()
        self._process: int | None = None

    def kill(self) -> None:
        """Kill the running interpreter."""
        if self._process is not None:
            with suppress(OSError):
                os.kill(self._process, KILL)

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a program or call a function."""
        limits = request["limits"]
        output = Output(limits["output"], self.kill)
        try:
            done = self._feed(request, output)
        except self._monty.MontyCrashedError as error:
            late = "SIGXCPU" in str(error)  # the kernel's limit on processor time
            why = "" if late else f"the interpreter was killed: {error}\n"
            done = {"exit_status": None if late else KILLED, "timed_out": late and not output.full, "why": why}
        except self._monty.MontyError as error:
            done = {"exit_status": 1, "why": describe_error(error)}
        except RecursionError as error:  # of values that are too deep to be passed on
            done = {"exit_status": 1, "why": f"RecursionError: {error}\n"}
        finally:
            self._process = None
        why = done.pop("why", "")
        done.update(stdout=output.get("stdout"), stderr=output.get("stderr") + why)
        if output.full or len((done.get("result") or "").encode("utf-8", "replace")) > limits["output"]:
            done.update(exit_status=None, truncated=True, result=None, stderr=output.get("stderr"))
        return done

    def _feed(self, request: dict[str, Any], output: Output) -> dict[str, Any]:
        limits = request["limits"]
        settings = {
            "max_feed_duration_secs": limits["wall"],
            "max_memory": limits["memory"],
            "max_suspensions": 10**6,
        }
        with self._pool.checkout(limits=settings, os_policy={"sleep_system_max": float("inf")}) as session:
            self._process = session.worker_pid
            limit_process(session.worker_pid, limits)
            if request["act"] == "run":
                reader = make_reader(request["given"], output)
                session.feed_run(request["code"], print_callback=output, external_lookup={"input": reader})
                return {"exit_status": 0}
            session.feed_run(request["code"], print_callback=output)
            session.feed_run(self._result_text)
            arguments = {"arguments": json.loads(request["given"])}
            return {"exit_status": 0, "result": session.feed_run(CALL, inputs=arguments, print_callback=output)}


def limit_process(process: int, limits: dict[str, Any]) -> None:
    """Make the kernel limit an interpreter, if it can: no new files or connections, memory, processor time."""
    try:
        import resource
    except ImportError:  # Windows
        return
    if not hasattr(resource, "prlimit"):  # macOS
        return
    memory, processor = limits["memory"] + SPARE, limits["processor"]
    for name, value in (("AS", memory), ("NOFILE", 0), ("FSIZE", 0), ("CORE", 0)):
        resource.prlimit(process, getattr(resource, f"RLIMIT_{name}"), (value, value))
    resource.prlimit(process, resource.RLIMIT_CPU, (processor, processor + 1))


def make_reader(text: str, output: Output) -> Callable[..., str]:
    """Make the function `input` of a program."""
    lines: Iterator[str] = iter(text.splitlines())

    def read(prompt: object = "") -> str:
        output("stdout", str(prompt))
        try:
            return next(lines)
        except StopIteration:
            raise EOFError("EOF when reading a line") from None

    return read


def describe_error(error: Any) -> str:
    """Describe an error by traceback, type and message, with a hint if Monty may be the reason."""
    frames = error.traceback() if hasattr(error, "traceback") else []
    own = [frame for frame in frames if frame.filename == NAME][-SHOWN:]
    lines = ["Traceback (most recent call last):"] if own else []
    for frame in own:
        lines.append(f'  File "/main.py", line {frame.line}, in {frame.function_name or "<module>"}')
        lines += [f"    {frame.source_line.strip()}"] if frame.source_line else []
    message = error.display("type-msg") if hasattr(error, "display") else str(error)
    lines += [message, *([HINT] if may_be_partial(message) else [])]
    return "\n".join(lines).replace(NAME, "/main.py") + "\n"


def may_be_partial(message: str) -> bool:
    """Whether an unsupported part of Python may be the reason of an error."""
    unknown = re.match("NameError: name '(.*)' is not defined", message)
    return hasattr(builtins, unknown[1]) if unknown else bool(PARTIAL.match(message))


def serve(requests: "SimpleQueue[bytes]", interpreters: Interpreters) -> None:
    """Answer requests one after another; an error outside the programs ends this process."""
    try:
        while True:
            answer = interpreters.execute(json.loads(requests.get()))
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()
    finally:
        interpreters.kill()
        os._exit(1)


def main() -> None:
    """Serve in a thread, so that the end of standard input is seen while a program runs."""
    result_text, folder = sys.argv[1:]
    sys.path.append(folder)
    import pydantic_monty

    interpreters, requests = Interpreters(pydantic_monty, result_text), SimpleQueue[bytes]()
    threading.Thread(target=serve, args=(requests, interpreters), daemon=True).start()
    for line in sys.stdin.buffer:
        requests.put(line)
    interpreters.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
