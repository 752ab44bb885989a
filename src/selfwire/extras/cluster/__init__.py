"""Runs on several processes and machines: workers, their shared budget and limits."""
