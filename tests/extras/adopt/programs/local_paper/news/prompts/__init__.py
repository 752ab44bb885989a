from pathlib import Path

_DIR = Path(__file__).parent
PROMPTS = {p.stem: p.read_text(encoding="utf-8").strip() for p in sorted(_DIR.glob("*.md"))}


def get(name: str, **kw) -> str:
    text = PROMPTS[name]
    for k, v in kw.items():
        text = text.replace("{{" + k + "}}", str(v))
    return text
