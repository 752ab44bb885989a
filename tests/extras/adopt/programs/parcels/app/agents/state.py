from typing_extensions import TypedDict


class Case(TypedDict, total=False):
    case: str
    steps: list[str]
    log: list[str]
    report: str
    passed: bool
