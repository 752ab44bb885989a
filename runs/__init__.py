"""The life of a run: request, estimate, start, resume, record and report; for the command line and for Python."""
