"""`allow_open_files`: raise the limit of files that this process may have open."""

from __future__ import annotations

import resource

from partition_ops.errors import UsageError

OTHERS = 256  # of libraries, and temporary ones


def allow_open_files(count: int) -> None:
    """Let this process open some files at the same time, if the system allows it.

    Raises:
        UsageError: The hard limit is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + OTHERS
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UsageError(
            "This process may not open enough files",
            found=f"a hard limit of {hard}",
            expected=f"{needed} or more",
            remedy=f"Raise the limit with 'ulimit -Hn {needed}', or use fewer features.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
