"""What selfwire itself costs: overheads beside hand-written code, sizes and times."""
