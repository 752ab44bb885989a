"""Agents by kind, and their prompts."""
