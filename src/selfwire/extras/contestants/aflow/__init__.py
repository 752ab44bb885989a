"""A tree search over teams as a contestant, in the manner of AFlow (Zhang et al., 2025)."""
