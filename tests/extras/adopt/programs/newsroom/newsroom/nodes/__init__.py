from .checks import fact_check, legal
from .writing import edit, headline, report

__all__ = ["edit", "fact_check", "headline", "legal", "report"]
