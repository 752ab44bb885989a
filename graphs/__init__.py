"""State machines of the methods, the graph of a team, and the outer evolution; all parts are wired here."""
