"""Worlds for EvoMAS's mechanisms."""

WORLDS = ("relays", "heads", "taught")
