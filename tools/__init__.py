"""Tools for agents."""
