"""Replies of models that are JSON and still odd."""
