"""Worlds for HiVA's mechanisms."""

from selfwire.evals.studies.hiva.kabb import WORLD

WORLDS = {"kabb": WORLD}
