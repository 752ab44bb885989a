"""Modules that workers need, imported once in the process that they are forked from."""

import gc
from importlib import import_module

gc.disable()  # what imports make stays, so looking through it again and again finds nothing
try:
    for name in (
        "selfwire.extras.cluster.evaluation_workers",
        "selfwire.extras.cluster.evolution_workers",
        "selfwire.extras.offline.model",
        "bm25s",
        "networkx",
    ):
        import_module(name)
    gc.freeze()  # forks share these pages as long as nobody looks through them
finally:
    gc.enable()
