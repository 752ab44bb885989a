"""Benchmarks, graders, statistics, reports and the command line."""
