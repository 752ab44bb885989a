"""Evidence: worlds that isolate a mechanism, ablations, controls and the pages of results."""
