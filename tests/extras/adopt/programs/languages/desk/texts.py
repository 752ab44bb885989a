from types import MappingProxyType
from typing import Final

DEFAULT: Final = "en"

TEXTS: Final = MappingProxyType(
    {
        "en": {"greet": "Greet the guest and ask how you can help.", "bye": "Say goodbye to {name} politely."},
        "de": {"greet": "Begruesse den Gast und frage, was er braucht.", "bye": "Verabschiede {name} hoeflich."},
    }
)

ERRORS = {"en": "Something went wrong, sorry.", "de": "Leider ging etwas schief."}


def t(key: str, lang: str | None = None, **values: str) -> str:
    """Return the text of a key in a language."""
    table = TEXTS.get(lang or DEFAULT, TEXTS[DEFAULT])
    return table[key].format(**values) if values else table[key]
