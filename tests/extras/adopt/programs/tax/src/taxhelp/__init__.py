from .workflow import app

__all__ = ["app"]
