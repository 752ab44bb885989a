from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class PromptSettings(BaseModel):
    intake: str = "You interview a taxpayer. Ask for one missing fact at a time."
    assess: str = (
        "You compute what {name} owes for {year}.\n"
        "Known facts:\n{facts}"
    )
    farewell: str = Field(
        default="Close the letter politely.", description="not shown to a model"
    )


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TAXHELP_", env_nested_delimiter="__")

    model: str = "openai:gpt-4.1"
    tone: Literal["formal", "friendly"] = "formal"
    prompts: PromptSettings = PromptSettings()


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    return Settings()
