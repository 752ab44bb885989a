"""Values and arithmetic of selfwire: no I/O, no LangGraph, no model."""
