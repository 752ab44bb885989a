"""Worlds for DyTopo's mechanisms."""

WORLDS = ("split",)
