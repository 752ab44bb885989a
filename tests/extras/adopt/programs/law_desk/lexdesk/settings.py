from pydantic import BaseModel, Field


class Settings(BaseModel):
    default_model: str = Field("gpt-4o-mini", description="Model that lawyers use unless they override it.")
    partner_model: str = Field("o4-mini", description="Model of the partner who signs off.")
    timeout: int = 30


settings = Settings()
