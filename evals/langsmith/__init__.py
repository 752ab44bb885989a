"""Benchmarks as LangSmith datasets and contestants as experiments; without an upload, all of it in this process."""
