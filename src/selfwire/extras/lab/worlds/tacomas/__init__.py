"""Worlds for TacoMAS's mechanisms."""

WORLDS = ("roles", "votes", "sweeps")
