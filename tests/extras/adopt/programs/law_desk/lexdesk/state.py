from dataclasses import dataclass, field
from typing import Annotated


def merge(left: dict, right: dict) -> dict:
    return {**left, **right}


@dataclass
class Matter:
    client: str
    story: str
    kind: str = ""
    opinions: Annotated[dict[str, str], merge] = field(default_factory=dict)
    signed: str = ""
