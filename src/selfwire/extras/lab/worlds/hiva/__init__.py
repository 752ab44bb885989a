"""Worlds for HiVA's mechanisms."""

WORLDS = ("kabb", "rooms", "synergy", "growth")
