import os

MODEL = os.environ.get("BRIEF_MODEL", "openai:gpt-4o")
DEFAULT_COURT = "supreme"
TONES = {
    "formal": "Use formal language and short sentences.",
    "plain": "Use plain words.",
}
