"""One module per paper: its Config, its equations and its evolver nodes; and the gate. No LangGraph, no client."""
