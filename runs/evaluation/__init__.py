"""Evaluations as runs: systems, shards, worker processes, and tasks that a system has seen before."""
