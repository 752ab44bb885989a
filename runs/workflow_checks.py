"""The workflow that a run starts from: a seed, or a saved one that can be run here: method, learned weights, tools."""

from collections.abc import Collection

from pydantic import ValidationError

from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.workflow import Workflow
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.own_tools import find_missing_tools, give_tools, refuse_unusable_tools


def make_seed(method: Method, bench: Benchmark) -> Workflow:
    """The workflow that a method starts from on a benchmark, with the tools of its own that the benchmark gives.

    Raises:
        ConfigError: something that the method needs is not installed.
    """
    seed = method.make_initial_workflow(bench.tools)
    method.check_learned(seed)
    return method.prepare_workflow(give_tools(seed, bench.own_tools)) if bench.own_tools else seed


def refuse_other_method(workflow: Workflow, method: str, what: str) -> None:
    """Refuse a workflow of another method.

    Args:
        what: the workflow in the message, such as "workflow 'x'".

    Raises:
        ConfigError: it belongs to another method.
    """
    if workflow.method != method:
        raise ConfigError(f"{what} belongs to {workflow.method}, not to {method}")


def refuse_unreadable_memory(method: Method, workflow: Workflow, what: str) -> None:
    """Refuse a workflow that has learned something that its method cannot use.

    Args:
        what: the workflow in the message.

    Raises:
        ConfigError, LibraryError: the method cannot read or use it.
    """
    try:
        method.check_learned(workflow)
    except (ValueError, TypeError, AttributeError) as error:
        why = format_first_fault(error, "memory") if isinstance(error, ValidationError) else str(error)
        raise ConfigError(
            f"{what} has learned what {method.name} cannot read ({why}); take another version, or empty its memory"
        ) from None


def refuse_missing_tools(workflow: Workflow, tools: Collection[str], what: str, advice: str) -> None:
    """Refuse a workflow whose agents hold tools that are not here, or whose own tools cannot be called here.

    Args:
        what: the workflow in the message.
        advice: ends the message: what lacks the tools, and what to do.

    Raises:
        ConfigError: its agents hold others, or `refuse_unusable_tools` refuses its own.
    """
    refuse_unusable_tools(workflow, tools)
    if missing := find_missing_tools(workflow, tools):
        raise ConfigError(f"{what} holds {', '.join(missing)}{advice}")
