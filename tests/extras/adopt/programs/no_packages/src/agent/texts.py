"""All texts of the agent."""

GREETING = "Hello."
BY_LANGUAGE = {
    "de": "Übersetze die Antwort ins Deutsche.",
    "fr": "Traduis la réponse en français.",
}
ERRORS = {"empty": "The question is empty."}
_RULES = ["Answer in one sentence.", "Name your source."]
RULES = "\n".join(_RULES)
