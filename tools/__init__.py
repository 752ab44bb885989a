"""What agents may hold."""
