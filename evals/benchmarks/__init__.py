"""Benchmarks: tasks, splits, environments and the tools that belong to them."""
