"""Which selfwire this is."""

from importlib.metadata import PackageNotFoundError, version


def get_version() -> str:
    """The version of the installed distribution, or "unknown" in a source tree that is not installed."""
    try:
        return version("selfwire")
    except PackageNotFoundError:
        return "unknown"
