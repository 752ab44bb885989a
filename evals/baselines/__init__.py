"""Baselines for comparison at equal budget: small graphs that belong to none of the compared papers."""
