"""Rows, sums and tables of systems on the same tasks."""
