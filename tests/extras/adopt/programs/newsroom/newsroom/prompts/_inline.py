TONE = "Write in the present tense, without adjectives."
HEADLINE_RULES: str = "\n".join(
    [
        "A headline has at most eight words.",
        "It names who did what.",
        f"House tone: {TONE}",
    ]
)
