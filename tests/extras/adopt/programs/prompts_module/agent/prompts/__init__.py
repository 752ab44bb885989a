from .research import RESEARCHER
from .research import SUMMARISER as SUMMARY_PROMPT

__all__ = ["RESEARCHER", "SUMMARY_PROMPT"]
