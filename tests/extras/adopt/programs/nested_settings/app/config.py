from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class PromptSet(BaseModel):
    model_config = ConfigDict(frozen=True)
    planner: str = Field(default="Make a plan for a garden.", description="Prompt of the planner.")
    critic: Annotated[str, Field(description="Prompt of the critic.")] = "Criticise the plan of a garden."
    spare: str = "A spare prompt that nobody uses."


class Settings(BaseModel):
    app_name: str = "Garden planner of the year"
    model: str = "gpt-5-mini"
    prompts: PromptSet = Field(default_factory=PromptSet)
    rules: list[str] = Field(default_factory=lambda: ["Use native plants.", "Save water."])


@dataclass
class Limits:
    note: str = field(default="Keep it below one page.")


settings = Settings()
LIMITS = Limits()
