"""Sandboxes for programs that models write: bubblewrap, and Monty where bubblewrap does not work."""
