"""Benchmarks, graders, baselines, statistics, evaluation and studies."""
