import os

VERSION = os.environ.get("LESSON_PROMPTS", "v2")

if VERSION == "v1":
    from .prompts_v1 import *  # noqa: F403
elif VERSION == "v2":
    from .prompts_v2 import GRADE, PLAN
else:
    raise RuntimeError(f"no prompts of version {VERSION}")

TONE = {"soft": "Use soft words.", "hard": "Use hard words."}[os.getenv("LESSON_TONE", "soft")]
FOOTER = "Sign as the school." if os.getenv("SIGN") == "1" else ""
