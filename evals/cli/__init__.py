"""The command line: `selfwire`."""

from selfwire.evals.cli.app import main

__all__ = ["main"]
