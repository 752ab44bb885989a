from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Prompts(BaseModel):
    planner: str = "You plan the investigation. List at most {max_steps} steps."
    worker: str = Field(default="You carry out one step and report.", description="Prompt of the worker")
    judge: str = Field(default_factory=lambda: "\n".join(["You judge the report.", "Reply PASS or FAIL."]))


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="APP_")
    model: str = "gpt-4o-mini"
    max_steps: int = 3
    prompts: Prompts = Prompts()


settings = Settings()
