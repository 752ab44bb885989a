from enum import Enum
from functools import cache
from importlib.resources import files

import yaml


class Lang(str, Enum):
    EN = "en"
    DE = "de"
    FR = "fr"

    @property
    def instruction(self) -> str:
        return {
            Lang.EN: "Answer in English.",
            Lang.DE: "Antworte auf Deutsch und duze den Kunden nicht.",
            Lang.FR: "Réponds en français, en vouvoyant le client.",
        }[self]


class Tone(Enum):
    formal = "Keep a formal register: no contractions, no jokes."
    casual = "Keep it light; one emoji per answer is fine."
    stern = "Be firm and cite the contract."


class Intent(str, Enum):
    REFUND = "refund"
    INVOICE = "invoice"
    OTHER = "other"


CLASSIFY = (
    "Classify the customer's message as one of: "
    + ", ".join(i.value for i in Intent)
    + ". Output the label and nothing else."
)

INVOICE_STEPS = {
    Lang.EN: "Explain each line of the invoice, then the total.",
    Lang.DE: "Erkläre jede Rechnungsposition, danach die Summe.",
}

FALLBACK_APOLOGY = "Sorry, the billing desk is closed right now. Please try again tomorrow."


@cache
def tenant(name: str) -> dict:
    return yaml.safe_load((files(__package__) / "tenants" / f"{name}.yaml").read_text("utf-8"))


def system_prompt(tenant_name: str, lang: Lang, *extra: str) -> str:
    conf = tenant(tenant_name)
    sections = [conf["greeting"].strip(), Tone[conf["policy"]["tone"]].value, *extra, lang.instruction]
    return "\n".join(filter(None, sections))
