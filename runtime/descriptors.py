"""How many files and connections this process may have open, raised as far as it may itself."""

import resource
from contextlib import suppress

DESCRIPTORS_WANTED = 32_768
# For the store, upstreams, providers, commands and whatever libraries open.
DESCRIPTORS_KEPT = 1_024


def raised_limit() -> int:
    """Return how many may be open, after the limit was raised towards what is wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(DESCRIPTORS_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems let less than the hard limit be set; then it stays as it was.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft
