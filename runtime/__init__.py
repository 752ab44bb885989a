"""The outside world: chat models, the offline model, embeddings, journal, saved workflows."""
