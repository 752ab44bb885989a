"""Packages that an installation may lack, since they are large."""

from importlib.util import find_spec

from selfwire.core.errors import ConfigError


def refuse_missing(package: str, user: str) -> None:
    """Check that a package is installed, without importing it.

    Args:
        package: as pip calls it; it is imported by the same name with underscores.
        user: what needs it, as the subject of a sentence.

    Raises:
        ConfigError: it is not; the message has the line that brings it.
    """
    if find_spec(package.replace("-", "_")) is None:
        raise ConfigError(f"{user} needs {package}, which is not installed: pip install {package}")
