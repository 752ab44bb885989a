"""Exit codes of the command line."""

FAILED = 1
"""Results that are not good enough: more errors than allowed, or a page that differs from its rows."""
WRONG = 2
"""Input that cannot be used, and every error that selfwire raises on purpose."""
STOPPED = 3
"""A budget or a provider has stopped the run; it can be resumed."""
INTERRUPTED = 130
"""Ctrl-C, as shells have it, and SIGTERM."""
NO_READER = 141
"""The output went to a program that has ended, such as `head`; shells say so of programs that SIGPIPE ends."""
