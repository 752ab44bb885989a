"""Pools of worker processes that end with their parent."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any


@contextmanager
def open_process_pool(
    workers: int, initialise: Callable[..., None] | None = None, *given: Any
) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, as forks would inherit threads; an error in the block ends them at once.

    They end with this process too, however that ends.

    Args:
        initialise: called in every process with the arguments `given`.
    """
    before, context = set(multiprocessing.active_children()), multiprocessing.get_context("spawn")
    arguments = (initialise, given)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=arguments) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise


def _begin(initialise: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """Leave Ctrl-C to the parent process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    if initialise:
        initialise(*given)
