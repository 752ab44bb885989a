"""A package per paper: its config, equations, prompts and edits; and the gate. No LangGraph, no client."""
