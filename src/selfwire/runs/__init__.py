"""The life of a run: request, estimate, start, resume, record and result."""
