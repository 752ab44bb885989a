"""Environments of peers, each with its own packages, below `.venv-peers`; made once, by pip."""

import hashlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HOME = Path(".venv-peers")
ALIKE = ("openai", "httpx2", "pydantic")
"""Packages that every engine has in the version of this environment, so that the client is the same."""


class InstallError(Exception):
    """A peer cannot be installed here; the text says why, in one line."""


def make_environment(requirement: str, home: Path = HOME) -> str:
    """The Python of an environment with a requirement such as `agentscope==2.0.10`.

    Raises:
        InstallError: pip or venv fails.
    """
    wanted = [requirement, *(f"{name}=={version(name)}" for name in ALIKE)]
    folder = home / f"{requirement.partition('=')[0]}-{hashlib.sha256(' '.join(wanted).encode()).hexdigest()[:8]}"
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
        done.write_text("\n".join(wanted), encoding="utf-8")
    return str(python.absolute())


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as failed:
        last = [line for line in failed.stderr.splitlines() if line.startswith("ERROR")] or [str(failed)]
        raise InstallError(last[-1]) from None
    except OSError as failed:
        raise InstallError(str(failed)) from None
