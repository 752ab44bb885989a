"""What results are printed beside, at equal budget: small graphs that no paper of the table owns."""
