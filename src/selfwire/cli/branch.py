"""A branch of a user's git repository with an evolved graph: a commit for each change, and its evidence.

The work tree, the index and the branch that is checked out are not touched.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill, shorten
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import load_plugin
from selfwire.core.team import Team
from selfwire.core.text import say_once
from selfwire.core.values import FrozenMap, format_count, mask_controls
from selfwire.evals.table import ResultTable
from selfwire.graphs.insertions import GraphEdits, describe_sources, list_graph_edits
from selfwire.graphs.own_graph import name_models
from selfwire.graphs.pruning import SET_MODEL
from selfwire.models.text_layer import LayerText
from selfwire.store.library import History, Library, Version

WIDTH = 72
"""Characters of a line of a commit's message."""
HEADS = "refs/heads/"


class TextChange(NamedTuple):
    """A change of a text of a graph by an evolution, of its model, of an inserted agent, or of a node that goes.

    Attributes:
        text: as it was evolved; its place is that of the source, or the node behind which an agent was inserted.
        new: as `LayerText.shown` writes it; "" for an agent or a node that was taken out, and for a model.
        why: the critics' reason; "" if it is not known.
        gain: what the gate found; "" if it is not known.
        beside: others that were made at once, so that the gain is of all together.
        version: that has it first, as `run.step`.
        edits: all edits of edges after the change.
        is_new: whether it inserts an agent.
        models: of prompts after the change, as "provider:model" by the prompts' names.
        asking: names of the prompts whose model it changes, the text's first; () for another change.
    """

    text: LayerText
    new: str
    why: str = ""
    gain: str = ""
    beside: int = 0
    version: str = ""
    edits: GraphEdits = GraphEdits()
    is_new: bool = False
    models: Mapping[str, str] = FrozenMap()
    asking: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The first line of its commit."""
        what = f"Rewrite the prompt {self.text.name}"
        if self.asking:
            what = f"Have {' and '.join(self.asking)} ask {self.models.get(self.text.name, 'its own model again')}"
        elif self.text.tool:
            what = f"Rewrite the description of the tool {self.text.tool}"
        elif self.text.setting:
            what = f"Set {self.text.setting} to {self.new}"
        elif self.is_new:
            what = f"Insert the agent {self.text.name} {self.text.place}"
        elif not self.new:
            what = f"Take out the {'agent' if self.text.shown else 'node'} {self.text.name} {self.text.place}"
        return shorten(what, WIDTH, placeholder="...")

    @property
    def evidence(self) -> str:
        """The gate's finding, and the number of changes that it is about."""
        with_others = f" (together with {format_count(self.beside, 'other change')})" if self.beside else ""
        return f"{self.gain or 'not known'}{with_others}"

    @property
    def message(self) -> str:
        """The message of its commit."""
        parts = [self.subject, " ".join(self.why.split()), f"Gate: {self.evidence}"]
        parts.append(f"Text: {self.text.place}. Version: {self.version}.")
        return mask_controls("\n\n".join(fill(part, WIDTH, break_long_words=False) for part in parts if part))


async def load_ancestors(library: Library, history: History, version: Version) -> list[tuple[Version, Team]]:
    """Load the versions of a run up to one of them, and of the runs that it went on from, with teams, old to new."""
    versions, last = list[Version](), [version]
    while last:
        run, step = last[-1].run, last[-1].step
        versions[:0] = [saved for saved in history.versions if saved.run == run and saved.step <= step]
        first = versions[0]
        older = [saved for saved in history.versions if saved.run != run and saved.age < first.age]
        last = [saved for saved in older if saved.fingerprint == first.fingerprint]
    return [(saved, await library.load(saved.ref)) for saved in versions]


async def find_known_texts(library: Library, history: History) -> dict[str, set[str]]:
    """Find all texts that versions of a team have had, by the name of the text."""
    known = dict[str, set[str]]()
    for saved in history.versions:
        for agent in (await library.load(saved.ref)).agents:
            known.setdefault(agent.id, set()).add(agent.prompt)
    return known


def name_change(applied: Mapping[str, Any]) -> str:
    """Name what an applied rewiring has changed: a text, an agent, a node, or "model of NAME"."""
    return f"model of {applied['edits'][0]['agent']}" if applied["operation"] == SET_MODEL else str(applied["by"])


def list_changes(
    texts: Mapping[str, LayerText], teams: Sequence[tuple[Version, Team]], models: Mapping[str, str] = FrozenMap()
) -> list[TextChange]:
    """List the changes from the source to the last of some teams, in the order in which they were accepted.

    Args:
        texts: of the source, by name.
        teams: each but the first made from the one before it.
        models: that agents ask, by the names that they have for them.

    Raises:
        ConfigError: an agent asks a model that is not among them.
    """
    states = [{agent.id: agent.prompt for agent in team.agents if agent.id in texts} for _, team in teams]
    now, found = {name: text.shown for name, text in texts.items()}, list[TextChange]()
    edits, asked = GraphEdits(), dict[str, str]()
    # a text may have been taken home before: what came before that is no change
    begins = {
        name: max((number for number, state in enumerate(states) if state.get(name) == shown), default=0)
        for name, shown in now.items()
    }
    for number, ((version, team), state) in enumerate(zip(teams, states, strict=True)):
        changed = [name for name, new in state.items() if number >= begins[name] and new != now[name]]
        made = [TextChange(texts[name], state[name], edits=edits) for name in changed]
        now |= {name: state[name] for name in changed}
        made += _list_edge_changes(edits, edits := list_graph_edits(team))
        made = [change._replace(models=asked) for change in made]
        before, asked = asked, name_models(team, models)
        given = [name for name in texts if before.get(name) != asked.get(name)]
        for model in dict.fromkeys(asked.get(name, "") for name in given):
            asking = tuple(name for name in given if asked.get(name, "") == model)
            before = {name: asked for name, asked in before.items() if name not in asking}
            before |= dict.fromkeys(asking, model) if model else {}
            made.append(TextChange(texts[asking[0]], "", edits=edits, models=before, asking=asking))
        reasons = {name_change(rewiring): str(rewiring["why"]) for rewiring in version.facts.get("applied", ())}
        gain = str((version.facts.get("gate") or {}).get("why", ""))
        for change in made:
            names = [f"model of {name}" for name in change.asking] or [change.text.name]
            why, beside = " ".join(dict.fromkeys(reasons.get(name, "") for name in names)).strip(), len(made) - 1
            found.append(change._replace(why=why, gain=gain, beside=beside, version=version.version))
    return found


def _list_edge_changes(before: GraphEdits, after: GraphEdits) -> Iterator[TextChange]:
    """List the changes between edits of edges: of agents that are gone, that are new, and of prompts; then of nodes."""
    old, new = before.prompts, after.prompts
    places = {found.agent: f"behind {found.after}" for found, _ in (*before.inserted, *after.inserted)}
    pairs = [found for found, _ in (*before.specialists, *after.specialists)]
    places |= {found.agent: f"beside {found.beside}" for found in pairs}
    merges, prompts = {found.agent: found.merge for found in pairs}, dict(old)
    order = [*merges, *(old.keys() - new.keys()), *new]  # with a specialist comes the agent that joins its text
    for agent in order:
        if prompts.get(agent) != new.get(agent):
            was = prompts.get(agent)
            for name in (agent, merges.get(agent, agent)):
                prompts.pop(name, None)
                prompts |= {name: new[name]} if name in new else {}
            text = LayerText(name=agent, pieces=(new.get(agent, was or ""),), place=places[agent])
            inserted = [(found, prompts[found.agent]) for found, _ in after.inserted if found.agent in prompts]
            beside = [(found, prompts[found.agent]) for found, _ in after.specialists if found.agent in prompts]
            edits = GraphEdits(tuple(inserted), tuple(beside), before.removals)
            yield TextChange(text, new.get(agent, ""), edits=edits, is_new=was is None)
    for removal in (*before.removals, *after.removals):
        if (removal in before.removals) != (removal in after.removals):
            text = LayerText(name=removal.node, pieces=("",), place=f"behind {describe_sources(removal.after)}")
            yield TextChange(text, "", edits=after)


def write_branch(target: str, changes: Sequence[TextChange], branch: str, *, force: bool) -> list[str]:
    """Write a branch with a commit for each change, on top of what is checked out; returns the commits' hashes.

    Args:
        target: the graph, as `my_app.graph:graph`.
        force: replace the branch if it exists.

    Raises:
        ConfigError: there is no repository here, the branch exists or is no name, or a file of a text has changes that
            are not committed.
    """
    top, prefix = Path(_git("rev-parse", "--show-toplevel").strip()), _git("rev-parse", "--show-prefix").strip()
    _git("check-ref-format", f"{HEADS}{branch}", why=f"{branch!r} cannot be the name of a branch")
    head, checked_out = _git("rev-parse", "HEAD").strip(), _git("worktree", "list", "--porcelain").splitlines()
    if f"branch {HEADS}{branch}" in checked_out:
        raise ConfigError(f"branch {branch!r} is checked out, and stays as it is; name a new one")
    if _git("for-each-ref", f"{HEADS}{branch}") and not force:
        raise ConfigError(f"branch {branch!r} exists; name a new one, or replace it with --force")
    patches = list(_make_patches(target, changes))
    for file in sorted({file for patch in patches for file in _list_files(patch)}):
        _check_committed(file)
    with TemporaryDirectory() as folder:
        commits, given = [head], {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        for change, patch in zip(changes, patches, strict=True):
            _git("read-tree", head, top=top, given=given)
            if patch:
                _git("apply", "--cached", f"--directory={prefix}", "-", top=top, given=given, sent=patch)
            tree = _git("write-tree", top=top, given=given).strip()
            commits.append(_git("commit-tree", tree, "-p", commits[-1], sent=change.message).strip())
    _git("update-ref", "-m", "export", f"{HEADS}{branch}", commits[-1], *([] if force else ["0" * len(head)]))
    return commits[1:]


def _make_patches(target: str, changes: Sequence[TextChange]) -> Iterator[str]:
    """Make the patch of each change and all before it, against the source; "" where the source has these texts."""
    now = dict[str, str]()
    for change in changes:
        gone = {name for removal in change.edits.removals for name in removal.agents}
        if change.text.name not in change.edits.names and change.new:
            now[change.text.name] = change.new
        if change.new == change.text.shown:
            now.pop(change.text.name, None)
        kept = {name: text for name, text in now.items() if name not in gone}
        is_changed, write = kept or any(change.edits) or change.models, load_plugin("selfwire.programs", "patch")
        yield write(target, kept, {}, change.edits, change.models) if is_changed else ""


def _list_files(patch: str) -> list[str]:
    """List the files that a patch changes."""
    with TemporaryDirectory() as outside:  # inside a repository paths would be those from its root
        counts = _git("apply", "--numstat", "-z", "-", sent=patch, top=Path(outside)) if patch else ""
    return [line.split("\t")[2] for line in counts.split("\0") if line]


def _check_committed(file: str) -> None:
    """Raise a ConfigError for a file that is not in the repository, or has changes that are not committed."""
    _git("ls-files", "--error-unmatch", file, why=f"{file} is not in the repository; commit it")
    why = f"{file} has changes that are not committed; commit or stash them"
    driver = _git("check-attr", "-z", "filter", "--", file).split("\0")[2]
    if (f"filter.{driver}.clean", "") in _find_filters(None):
        why = (
            f"{file} differs from what is committed, perhaps by the repository's filter {driver!r} alone, which is not "
            "run here; commit or stash what has changed, or export a patch with --as patch"
        )
    _git("diff", "--quiet", "--no-ext-diff", "--no-textconv", "HEAD", "--", file, why=why)


def _git(
    *words: str, top: Path | None = None, given: Mapping[str, str] | None = None, sent: str | None = None, why: str = ""
) -> str:
    """Call git, which starts no program that the repository names; returns its output.

    Raises:
        ConfigError: it is not there or fails; `why`, or what it says.
    """
    done = _run_git(*words, top=top, given={**_set_config(_QUIET + _find_filters(top)), **(given or {})}, sent=sent)
    if done.returncode:
        raise ConfigError(why or f"git {words[0]}: {done.stderr.strip() or f'it has ended with {done.returncode}'}")
    return done.stdout


_QUIET = (("core.hooksPath", os.devnull), ("core.fsmonitor", "false"), ("safe.bareRepository", "explicit"))
"""Settings under which git runs no hooks and no fsmonitor, and uses no repository that a clone holds as its files."""
_OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Variables under which git fetches nothing, as a fetch starts programs too."""


def _find_filters(top: Path | None) -> tuple[tuple[str, str], ...]:
    """Find the settings that take the programs out of a repository's filters."""
    named = _run_git("config", "-z", "--name-only", "--get-regexp", r"^filter\.", top=top, given=_set_config(_QUIET))
    drivers = sorted({name.rpartition(".")[0] for name in named.stdout.split("\0") if name})
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return tuple((f"{driver}.{field}", value) for driver in drivers for field, value in off.items())


def _set_config(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The variables that give git settings, behind those that the environment gives it already.

    Raises:
        ConfigError: the environment's number of settings is none.
    """
    given = os.environ.get("GIT_CONFIG_COUNT") or "0"
    if not given.isdecimal():
        raise ConfigError(f"the environment variable GIT_CONFIG_COUNT is {given!r}, which is no number; unset it")
    begin = int(given)
    pairs = {
        f"GIT_CONFIG_{kind}_{number}": part
        for number, setting in enumerate(settings, begin)
        for kind, part in zip(("KEY", "VALUE"), setting, strict=True)
    }
    return {"GIT_CONFIG_COUNT": str(begin + len(settings)), **pairs}


def _run_git(
    *words: str, top: Path | None, given: Mapping[str, str], sent: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git to its end.

    Raises:
        ConfigError: it is not there.
    """
    try:
        return subprocess.run(
            ["git", *words],
            cwd=top,
            env={**os.environ, **_OFFLINE, **given},
            input=sent,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError("there is no git on this machine; install it, or export a .patch file") from None


def format_page(
    target: str, version: Version, changes: Sequence[tuple[str, TextChange]], evidence: ResultTable | None
) -> str:
    """Format the description of a pull request in Markdown.

    Args:
        changes: each with the hash of its commit.
        evidence: scores of the versions on held-out tasks; None if none are known here.
    """
    rows = [
        (commit[:10], change.text.tool or change.text.name, change.text.place, why, change.evidence)
        for (commit, change), why in zip(changes, say_once(change.why for _, change in changes), strict=True)
    ]
    table = ResultTable(("commit", "text", "place", "why", "gate"), tuple(tuple(map(_escape, row)) for row in rows))
    parts = [f"# Texts of {target}, evolved", f"Version {version.ref}, fingerprint {version.fingerprint}."]
    parts.append(table.markdown)
    if evidence is not None:
        scores = ResultTable(evidence.head, tuple(tuple(map(_escape, row)) for row in evidence.rows))
        parts += ["## Scores on held-out tasks", scores.markdown, "\n".join(f"- {note}" for note in evidence.notes)]
    return "\n\n".join(filter(None, parts))


def _escape(cell: str) -> str:
    """Escape a cell of a table in Markdown, so that it is read as a text without mentions."""
    escaped = re.sub(r"[\\|<\[`&]", r"\\\g<0>", " ".join(cell.split()))
    return re.sub(r"(?<=[@#])(?=\w)", "<!-- -->", escaped)
