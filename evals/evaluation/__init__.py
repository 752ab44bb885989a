"""Contestants on the same tasks: run, graded, journalled, resumed, and printed beside each other."""
