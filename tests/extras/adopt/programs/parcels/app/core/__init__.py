from app.core.settings import settings
from app.core.llm import llm_factory
