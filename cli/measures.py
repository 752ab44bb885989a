"""The command that measures how a run's teams changed while they learned: measures."""

from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home
from selfwire.cli.trajectories import read_trajectories
from selfwire.core.errors import ConfigError
from selfwire.evals.learning_curve import compute_learning_curve, format_curve
from selfwire.evals.topology_metrics import WINDOW, compute_run_metrics, format_metrics

TRAIN = "/rollout"


def measures(
    run: Annotated[str, typer.Argument(help="Name of a run, of any method.")],
    window: Annotated[int, typer.Option(min=1, help="Queries of a sliding window.")] = WINDOW,
    curve: Annotated[bool, typer.Option("--curve", help="Score and tokens of every query instead.")] = False,
    home: Home = None,
) -> None:
    """Show the topology measures of a run's training, by quarter and by sort of question, or its learning curve."""
    found = [done for place, done in read_trajectories(home, run) if place.endswith(TRAIN)]
    if not found:
        raise ConfigError(f"run {run!r} has no trajectories of training yet; look with `selfwire show {run}`")
    if curve:
        points = compute_learning_curve(found, window)
        add_result(run=run, curve=points)
        typer.echo("\n".join(format_curve(points, window)))
        return
    measured = compute_run_metrics(found, window)
    add_result(run=run, measures=measured)
    typer.echo("\n".join(format_metrics(measured)))
