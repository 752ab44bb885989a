from .base import DeadlineMixin, Lawyer, PlainLanguageMixin
from .state import Matter


class EmploymentLawyer(DeadlineMixin, Lawyer):
    name = "employment"
    persona = "You are an employment lawyer who has sat on both sides of the table."
    field = "dismissal, wages and discrimination at work"


class TenancyLawyer(PlainLanguageMixin, DeadlineMixin, Lawyer):
    name = "tenancy"
    limit_days = 14

    @property
    def field(self) -> str:
        return "residential tenancies"

    def instructions(self, matter: Matter) -> list[str]:
        lines = super().instructions(matter)
        lines.insert(1, "Ask for the tenancy agreement if the story does not mention one.")
        return lines


class Partner(Lawyer):
    name = "partner"
    model_name = "gpt-4.1"
    persona = "You are the senior partner. You sign or you send back."
    field = "quality control"

    def instructions(self, matter: Matter) -> list[str]:
        return ["Reply SIGNED followed by one sentence, or RETURNED followed by the reason."]

    def describe(self, matter: Matter) -> str:
        drafts = "\n\n".join(f"Draft by the {who} desk:\n{text}" for who, text in matter.opinions.items())
        return super().describe(matter) + "\n\n" + drafts

    def __call__(self, matter: Matter) -> dict:
        return {"signed": self.llm.invoke(self.prompt(matter)).text}


class TaxLawyer(Lawyer):
    name = "tax"
    persona = "You are a tax lawyer with a love of footnotes."
    field = "income and inheritance tax"


DESK: tuple[type[Lawyer], ...] = (EmploymentLawyer, TenancyLawyer)
