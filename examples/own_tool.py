"""A tool of your own: any LangChain tool, here a search in a handbook; `--tools own_tool:look_up` lends it."""

import re
from pathlib import Path

from langchain_core.tools import tool

ARTICLES = Path(__file__).with_name("handbook.md").read_text(encoding="utf-8").split("\n\n")


def find_words(text: str) -> set[str]:
    """The words of a text that say something."""
    return set(re.findall(r"\w{4,}", text.lower()))


@tool
def look_up(query: str) -> str:
    """Search the shop's handbook; returns the article that shares most words with the query."""
    return max(ARTICLES, key=lambda article: len(find_words(query) & find_words(article)))
