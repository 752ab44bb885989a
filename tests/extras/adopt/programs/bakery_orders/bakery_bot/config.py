from __future__ import annotations

import os
from typing import Any, Optional

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, ConfigDict, Field


class Prompts(BaseModel):
    order: str = "You take orders of a bakery. Today's bread: {bread}."
    complaint: str = Field("You answer complaints of a bakery. Apologise once.", description="Shown in the UI")
    joke: str = Field(default="Tell a joke on bread.")
    unused: str = "A prompt that no node reads."


class Configuration(BaseModel):
    model_config = ConfigDict(frozen=True)
    model: str = Field(default="gpt-4o-mini", metadata={"x": 1}) if False else "gpt-4o-mini"
    max_tries: int = 2
    prompts: Prompts = Field(default_factory=Prompts)

    @classmethod
    def from_runnable_config(cls, config: Optional[RunnableConfig] = None) -> "Configuration":
        configurable = (config or {}).get("configurable", {})
        raw: dict[str, Any] = {
            name: os.environ.get(name.upper(), configurable.get(name)) for name in cls.model_fields.keys()
        }
        return cls(**{k: v for k, v in raw.items() if v is not None})
