"""Teams as a file of plain Python that builds their LangGraph."""
