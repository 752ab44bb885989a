"""How much of the randomised tests is run: a slice in `make test`, all of it in `make fuzz`."""

import os

CHAOS = os.environ.get("SELFWIRE_CHAOS") == "1"
"""Whether this is `make fuzz`."""
DAMAGES = 20_000 if CHAOS else 60
"""Damaged entries of files per test."""
ODD_REPLIES = 1_000_000 if CHAOS else 600
"""Odd replies that are parsed."""
PARTS = 20 if CHAOS else 1
"""Parts of these, which processes share."""
ODD_RUNS = 100 if CHAOS else 2
"""Iterations per method with odd replies."""
TOOL_SOURCES = 100_000 if CHAOS else 1_000
"""Texts that are tried as sources of tools."""
SANDBOXED_SOURCES = 1_000 if CHAOS else 10
"""How many of those that are legal are run."""
