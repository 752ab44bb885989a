"""Packages are found under src/; where git wrote its links as text files (Windows), in the rooms themselves."""

from pathlib import Path

from setuptools import find_namespace_packages, setup

LINKS = Path("src/selfwire")
rooms = sorted(link.name for link in LINKS.iterdir())
if all((LINKS / room).is_dir() for room in rooms):
    setup(packages=find_namespace_packages("src"), package_dir={"": "src"})
else:
    found = find_namespace_packages(include=[pattern for room in rooms for pattern in (room, f"{room}.*")])
    setup(
        packages=[f"selfwire.{name}" for name in found],
        package_dir={f"selfwire.{name}": name.replace(".", "/") for name in found},
    )
