"""GEPA as a contestant: the library of Agrawal et al. (2025) optimises the prompts of a fixed team on our tasks."""
