"""Static inventory of somebody's LangGraph program: nodes, edges, tools, models and the texts that reach models."""
