"""Translation of product texts."""
