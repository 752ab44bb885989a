"""What a program of the abuse suite is."""

from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True)
class Program:
    """A program that tries something; the same one runs in every sandbox.

    Args:
        name: says what it tries.
        body: of `tool_function(at)`; `at` says where secrets, sockets, files and processes are.
        harm: what it does where nothing holds it: "secret", "reached", "written" or "left"; "" where that is not shown,
            as it cannot be or is not safe.
        ends: what says how it ends in bubblewrap, as a regular expression: "late", "full", or the last line of stderr;
            "" for any way.
        traces: whether it looks into the memory of another process, which some kernels refuse to all.
    """

    name: str
    body: str
    harm: str = ""
    ends: str = ""
    traces: bool = False

    @property
    def source(self) -> str:
        """The text of the module."""
        return f"def tool_function(at):\n{indent(self.body.strip(), '    ')}\n"
