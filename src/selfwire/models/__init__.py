"""Chat models and the gates before every call: budget, limits, structured replies, embeddings."""
