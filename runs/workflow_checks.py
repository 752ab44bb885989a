"""Whether a saved workflow can be run here: its method, its learned weights, its tools."""

from collections.abc import Collection

from selfwire.core.errors import ConfigError
from selfwire.core.workflow import Workflow


def refuse_other_method(workflow: Workflow, method: str, what: str) -> None:
    """Refuse a workflow of another method.

    Args:
        what: the workflow in the message, such as "workflow 'x'".

    Raises:
        ConfigError: it belongs to another method.
    """
    if workflow.method != method:
        raise ConfigError(f"{what} belongs to {workflow.method}, not to {method}")


def refuse_missing_tools(workflow: Workflow, tools: Collection[str], what: str, advice: str) -> None:
    """Refuse a workflow whose agents hold tools that are not here.

    Args:
        what: the workflow in the message.
        advice: ends the message: what lacks the tools, and what to do.

    Raises:
        ConfigError: its agents hold others.
    """
    held = {tool for agent in workflow.agents for tool in agent.tools}
    if missing := sorted(held.difference(tools)):
        raise ConfigError(f"{what} holds {', '.join(missing)}{advice}")
