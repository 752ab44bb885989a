"""Worlds for HiVA's mechanisms."""

WORLDS = ("kabb", "synergy", "growth")
