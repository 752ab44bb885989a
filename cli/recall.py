"""The command that measures retrieval without a team: recall."""

from typing import Annotated

import typer

from selfwire.cli.json_output import add_result
from selfwire.core.protocols import Embedder
from selfwire.evals.benchmarks.multihop import load_collection
from selfwire.evals.retrieval import format_recall, measure_recall
from selfwire.runtime.embedding_cache import CachedEmbedder
from selfwire.runtime.embeddings import load_embedder
from selfwire.runtime.sync import run_sync
from selfwire.tools.retrievers import NAMES


def recall(
    benchmark: Annotated[str, typer.Argument(help="hotpotqa or 2wikimultihopqa.")],
    retriever: Annotated[str, typer.Option(help="bm25, dense, hybrid, or several with commas; all.")] = "bm25",
    embedder: Annotated[str, typer.Option(help="Of dense and hybrid: auto, minilm or hashing.")] = "auto",
) -> None:
    """Show how much of what the questions need is among the first 5 and 10 passages found."""
    names = NAMES if retriever == "all" else tuple(name.strip() for name in retriever.split(","))
    found = load_collection(benchmark)
    embeds: Embedder | None = None
    if names != ("bm25",):
        loaded, notice = load_embedder(embedder)
        typer.echo(notice or f"embeddings by {loaded.name}", err=True)
        embeds = CachedEmbedder(loaded)
    measured = []
    for name in names:
        measured.append(run_sync(measure_recall(found, name, embeds)))
        typer.echo(format_recall(measured[-1:])[0])
    add_result(benchmark=benchmark, retrievers=measured)
