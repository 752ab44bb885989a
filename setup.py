"""Packages are found under src/; where git wrote its links as text files (Windows), in the rooms themselves.

README.md is also the page of a package index, where relative links lead nowhere: there they are absolute.
"""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup

REPOSITORY = ""
"""The public address of the repository, without a slash at its end; while there is none, links become plain text."""

LINKS = Path("src/selfwire")
TARGET = r"\]\((?![a-z]+:)([^)\s]+)\)"
PICTURES = (".gif", ".jpg", ".png", ".svg", ".webp")


def make_long_description(text: str, repository: str) -> str:
    """The text with absolute links; without a repository, with the words of its links, and no pictures."""
    if not repository:
        return re.sub(r"\[([^\[\]]*)" + TARGET, r"\1", re.sub(r"!\[[^\]]*" + TARGET, "", text))

    def make_absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1].endswith(PICTURES) else "blob"
        return f"]({repository}/{kind}/main/{'README.md' * link[1].startswith('#')}{link[1]})"

    return re.sub(TARGET, make_absolute, text)


def find_urls(repository: str) -> dict[str, str]:
    """The addresses that a package index shows beside the page."""
    pages = {
        "Source": "",
        "Documentation": "/tree/main/docs",
        "Issues": "/issues",
        "Changelog": "/blob/main/CHANGELOG.md",
    }
    return {name: repository + page for name, page in pages.items()} if repository else {}


def find_packages() -> dict[str, object]:
    """The packages and their folders, as `setup` takes them."""
    lost = sorted(path.name for path in LINKS.iterdir() if path.is_file() and not path.suffix)
    found = find_namespace_packages(include=[pattern for room in lost for pattern in (room, f"{room}.*")])
    rooms = {f"selfwire.{name}": name.replace(".", "/") for name in found}
    return {"packages": [*find_namespace_packages("src"), *rooms], "package_dir": {"": "src", **rooms}}


setup(
    long_description=make_long_description(Path("README.md").read_text(encoding="utf-8"), REPOSITORY),
    long_description_content_type="text/markdown",
    project_urls=find_urls(REPOSITORY),
    **find_packages(),
)
