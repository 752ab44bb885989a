"""The command that serves the pages of runs: view."""

import os
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.cli.options import Home
from selfwire.extras.pages.view.server import PORT, ViewServer


def view(
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 for one that is free.")] = PORT,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; any but one of this machine alone needs a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(
            "--token",
            envvar="SELFWIRE_VIEW_TOKEN",
            show_envvar=True,
            help="Secret that readers must know; better in the environment, as other users see command lines.",
        ),
    ] = "",
    show: Annotated[bool, typer.Option("--open", help="Open the list in a browser.")] = False,
    home: Home = None,
) -> None:
    """Serve the list of runs and their pages on this machine; pages follow runs that go on. Ctrl-C ends it."""
    with ViewServer(home, port=port, host=host, token=token) as server:
        add_result(address=server.url)
        ask = "?token=..., with your token in place of the dots" if token else ""
        typer.echo(f"runs and their pages are at {server.url}{ask}; Ctrl-C ends this")
        if show:
            webbrowser.open(server.url)
        if hasattr(os, "nice"):
            os.nice(10)  # runs go first
        with suppress(KeyboardInterrupt):
            server.serve_forever()
