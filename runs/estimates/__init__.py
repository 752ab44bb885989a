"""What a run may cost, before it starts."""
