"""Data on disk: the journal of paid calls, versions of saved workflows, and files."""
