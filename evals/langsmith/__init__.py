"""Benchmarks as LangSmith datasets and systems as experiments; without an upload, everything stays in this process."""
