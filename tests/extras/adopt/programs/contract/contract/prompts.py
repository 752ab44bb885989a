EXTRACT = """List the clauses of this contract, one a line, at most {max_clauses}.

<contract>
{contract}
</contract>"""

REVIEW = "You review clauses for the weaker party. Rate each risk as low, medium or high."
CITE = "Quote the words that carry the risk."
UNUSED = "You translate contracts into plain English."
