"""Evaluations as runs: systems, shards and worker processes, what is measured and what was seen before."""
