"""Reports of runs: one self-contained HTML page per run."""
