"""The garbage collector, told what it need not look at."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A governed call makes some hundreds of objects that all die with it; by default the youngest
# generation is looked through after 700, which is several times in every batch of calls.
_YOUNG_MAX = 10_000
_OLDER_EVERY = 20


@contextmanager
def loading() -> Iterator[None]:
    """Let the collector rest while modules are loaded, and never look through them afterwards.

    What modules make lives as long as the process, so that there is nothing to be found in it:
    looking all the same takes a third of the time that a sidecar needs to load.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def spare_what_lasts() -> None:
    """Keep the collector from looking through what lives as long as the process.

    To be called once everything is loaded and open. A full collection stops every thread; over
    the some hundred thousand objects of the loaded modules it takes longer than thirty calls.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, _OLDER_EVERY, _OLDER_EVERY)
