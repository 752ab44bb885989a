"""Static inventory of a LangGraph program: nodes, edges, tools, models and the texts that reach models."""
