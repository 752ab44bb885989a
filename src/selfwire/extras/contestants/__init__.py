"""Optimisers by others that runs can be compared with: AFlow and GEPA."""
