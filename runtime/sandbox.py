"""Chooses the sandbox for programs and tools that a model wrote, by trying."""

from selfwire.core.protocols import Sandbox
from selfwire.runtime.bubblewrap import find_working_bubblewrap


def find_sandbox() -> Sandbox:
    """A sandbox that works here; else a ConfigError that says the way out."""
    return find_working_bubblewrap()
