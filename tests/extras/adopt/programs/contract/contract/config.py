import os
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Annotated, Any, Literal, Optional

from langchain_core.runnables import RunnableConfig

from contract import prompts


class Depth(str, Enum):
    QUICK = "quick"
    THOROUGH = "thorough"


@dataclass(kw_only=True)
class Configuration:
    """The configuration of the contract reviewer."""

    model: Annotated[
        Literal["openai:gpt-4o", "openai:gpt-4o-mini"],
        {"__template_metadata__": {"kind": "llm"}},
    ] = "openai:gpt-4o-mini"
    depth: Depth = Depth.QUICK
    max_clauses: int = 3
    cite: bool = True
    jurisdiction: Optional[str] = None
    extract_prompt: str = field(default=prompts.EXTRACT, metadata={"description": "Finds the clauses."})
    review_prompt: str = prompts.REVIEW

    @classmethod
    def from_runnable_config(cls, config: Optional[RunnableConfig] = None) -> "Configuration":
        configurable = config.get("configurable", {}) if config else {}
        values: dict[str, Any] = {
            f.name: os.environ.get(f.name.upper(), configurable.get(f.name)) for f in fields(cls) if f.init
        }
        return cls(**{k: v for k, v in values.items() if v})
