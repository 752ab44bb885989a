"""Data sets of the Hugging Face Hub: `hf:owner/name[:config][@revision]`, read from their data files.

Without a revision it is the Hub's own conversion to Parquet, which most public data sets have, else the main branch.
Splits and configs are told by the names of files, as the Hub writes them: `config/split/0000.parquet`,
`config/train-00000-of-00002.parquet`, `test.jsonl`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.evals.own_data.files import READERS
from selfwire.evals.own_data.parquet import INSTALL
from selfwire.evals.own_data.rows import MOST_BYTES, DataRow
from selfwire.runtime.provider_errors import Caught

PREFIX = "hf:"
CONVERTED = "refs/convert/parquet"
"""Branch with the Hub's own conversion."""
KEYWORDS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "eval": "test", "evaluation": "test",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
}  # fmt: skip
"""Splits by a word in the name of a file or folder."""
USUAL_SPLITS = ("test", "validation", "train")
"""In the order of preference where none is named."""
_NAME = re.compile(r"hf:(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[^@:]+))?(?:@(?P<revision>\S+))?")
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")
TIMEOUT = 30.0
"""Seconds for the list of files."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubName:
    """A data set by name; None for what is not said."""

    repo: str
    config: str | None = None
    revision: str | None = None

    @classmethod
    def parse(cls, name: str) -> "HubName":
        """The parts of `hf:owner/name[:config][@revision]`; ConfigError if it is none."""
        if (found := _NAME.fullmatch(name)) is None:
            raise ConfigError(
                f"{name!r} names no data set of the Hugging Face Hub; write hf:owner/name, hf:owner/name:config or "
                "hf:owner/name:config@revision"
            )
        return cls(**found.groupdict())

    def __str__(self) -> str:
        """As it is typed."""
        config = f":{self.config}" if self.config else ""
        return f"{PREFIX}{self.repo}{config}{f'@{self.revision}' if self.revision else ''}"


@dataclass(frozen=True)
class HubFiles:
    """Files of a data set at one commit: their sizes by path."""

    commit: str
    sizes: Mapping[str, int]


def pin_commit(name: str) -> str:
    """The name with the commit that it means now, so that a resumed run reads the same files.

    Raises:
        ConfigError: there is no such data set or revision, or the Hub cannot be reached.
    """
    parsed = HubName.parse(name)
    if parsed.revision and _COMMIT.fullmatch(parsed.revision):
        return name
    return str(replace(parsed, revision=_list_files(parsed).commit))


def read_hub(name: str, split: str | None) -> tuple[Iterator[DataRow], tuple[str, ...]]:
    """Rows of a split, and notes on what was chosen.

    Raises:
        ConfigError: there is no such data set, config or split, or the Hub cannot be reached.
    """
    parsed = HubName.parse(name)
    found = _list_files(parsed)
    splits = _choose_config(parsed, sort_files(found.sizes))
    chosen = _choose_split(parsed, splits, split)
    others = ", ".join(sorted(set(splits) - {chosen}))
    note = f"{parsed.repo}: tasks are from the split {chosen!r}; --data-split chooses another ({others})"
    return _read_files(parsed, found, splits[chosen]), (note,) if others and split is None else ()


def sort_files(paths: Mapping[str, int]) -> dict[str, dict[str, list[str]]]:
    """Paths of data files by config and split; of several formats of a split only the first in `READERS`."""
    found: dict[str, dict[str, list[str]]] = {}
    for suffix in READERS:
        placed = [(place, path) for path in sorted(paths) if (place := find_place(path)) and path.endswith(suffix)]
        taken = {(config, split) for config, splits in found.items() for split in splits}
        for (config, split), path in placed:
            if (config, split) not in taken:
                found.setdefault(config, {}).setdefault(split, []).append(path)
    return found


def find_place(path: str) -> tuple[str, str] | None:
    """Config and split of a data file by its path; None if it is none."""
    parsed = PurePosixPath(path)
    if parsed.suffix not in READERS or parsed.is_absolute() or ".." in parsed.parts:
        return None
    folders, stem = [one for one in parsed.parts[:-1] if one != "data"], parsed.stem
    if shard := _SHARD.fullmatch(stem):
        split = shard["split"]
    elif stem.isdigit() and folders:
        split = folders.pop()
    else:
        split = _find_keyword(stem) or next(filter(None, map(_find_keyword, folders)), "train")
        folders = [one for one in folders if one.lower() not in KEYWORDS]
    return "/".join(folders) or "default", split


def _find_keyword(name: str) -> str | None:
    return next((KEYWORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in KEYWORDS), None)


def _choose_config(name: HubName, configs: Mapping[str, dict[str, list[str]]]) -> dict[str, list[str]]:
    if not configs:
        raise ConfigError(f"{name} has no file of {', '.join(READERS)}; save it as one of them and give its path")
    wanted = name.config or ("default" if "default" in configs else min(configs))
    if wanted not in configs or (name.config is None and wanted != "default" and len(configs) > 1):
        raise ConfigError(
            f"{name} has the configs {', '.join(sorted(configs))}; name one, as in --benchmark "
            f"{replace(name, config=min(configs))}"
        )
    return configs[wanted]


def _choose_split(name: HubName, splits: Mapping[str, Any], given: str | None) -> str:
    if given is not None and given not in splits:
        raise ConfigError(f"--data-split {given}: {name} has {', '.join(sorted(splits))}")
    return given or next((one for one in USUAL_SPLITS if one in splits), min(splits))


def _read_files(name: HubName, files: HubFiles, paths: list[str]) -> Iterator[DataRow]:
    number = 0
    for path in paths:
        if files.sizes[path] > MOST_BYTES:
            raise ConfigError(
                f"{name}: {path} has {files.sizes[path] / 1e6:,.0f} MB, more than the {MOST_BYTES / 1e6:,.0f} MB that "
                "are read; choose another --data-split, or give a file with a sample of it"
            )
        for row in READERS[PurePosixPath(path).suffix](_download(name, files.commit, path)):
            number += 1
            yield replace(row, file=f"{name.repo}, {path}", id=f"row-{number}")


def _download(name: HubName, commit: str, path: str) -> Path:
    from huggingface_hub import hf_hub_download

    with Caught() as caught:
        return Path(hf_hub_download(name.repo, path, repo_type="dataset", revision=commit))
    raise _explain(name, caught.error) from caught.error


@lru_cache(maxsize=8)
def _list_files(name: HubName) -> HubFiles:
    """The data files at the revision, else of the Hub's conversion, else of the main branch."""
    try:
        from huggingface_hub.errors import RevisionNotFoundError
    except ImportError:
        raise ConfigError(f"{name}: data sets of the Hugging Face Hub need the extra 'data': {INSTALL}") from None

    with Caught() as caught:  # a client of another's
        return _ask_hub(name.repo, name.revision or CONVERTED)
    if isinstance(caught.error, RevisionNotFoundError):
        if name.revision is not None:
            raise ConfigError(f"{name.repo} has no revision {name.revision!r}") from None
        with Caught() as caught:
            return _ask_hub(name.repo, "main")
    if kept := _find_kept_files(name):
        return kept
    raise _explain(name, caught.error) from caught.error


def _ask_hub(repo: str, revision: str) -> HubFiles:
    from huggingface_hub import HfApi

    found = HfApi().dataset_info(repo, revision=revision, files_metadata=True, timeout=TIMEOUT)
    return HubFiles(found.sha or revision, {one.rfilename: one.size or 0 for one in found.siblings or ()})


def _find_kept_files(name: HubName) -> HubFiles | None:
    """The files of a commit that the Hub's client has downloaded before."""
    from huggingface_hub.constants import HF_HUB_CACHE

    if name.revision is None:
        return None
    folder = Path(HF_HUB_CACHE) / f"datasets--{name.repo.replace('/', '--')}" / "snapshots" / name.revision
    sizes = {str(one.relative_to(folder)): one.stat().st_size for one in folder.rglob("*") if one.is_file()}
    return HubFiles(name.revision, sizes) if sizes else None


def _explain(name: HubName, error: BaseException | None) -> ConfigError:
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    why = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, GatedRepoError):
        return ConfigError(f"{name}: its owner lets in who asks; ask on its page, then set HF_TOKEN ({why})")
    if isinstance(error, RepositoryNotFoundError | HFValidationError):
        return ConfigError(
            f"{name}: there is no data set {name.repo!r} on the Hugging Face Hub; if it is private, set HF_TOKEN"
        )
    return ConfigError(
        f"{name}: the Hugging Face Hub did not answer ({why}); download a file of the data set where there is a "
        "network, and give its path to --benchmark"
    )
