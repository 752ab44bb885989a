import operator
from typing import Annotated

from pydantic import BaseModel, Field


class Story(BaseModel):
    topic: str
    report: str = ""
    headline: str = ""
    notes: Annotated[list[str], operator.add] = Field(default_factory=list, description="Notes of the checkers")
