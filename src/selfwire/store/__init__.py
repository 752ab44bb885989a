"""Data on disk: the journal of paid calls, versions of saved teams, and files."""
