"""Worlds for HERA's mechanisms."""

WORLDS = ("procedures",)
