"""The offline stand-in model."""
