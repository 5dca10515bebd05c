"""Findings: collects what the checks of a stored output find, by the names of the checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError, StorageError, UsageError, clipped

LONGEST = 200  # characters of a value in a finding


class Findings:
    """Collects failures of checks by the name of the check, so that one failure does not hide the next."""

    def __init__(self) -> None:
        self._failures: defaultdict[str, list[str]] = defaultdict(list)
        self._begun: set[str] = set()
        self._unchecked: dict[str, str] = {}

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """Run a part of a check; an exception in it is a failure of the check.

        Every exception except one of the storage or the installation is caught, because a damaged artifact
        makes DGL, pyarrow and NumPy raise errors of many kinds, and the other checks must run nevertheless.
        """
        self._begun.add(name)
        try:
            yield
        except (StorageError, UsageError):  # not a property of the output
            raise
        except InvalidInputError as error:
            self.fail(name, str(error))
        except Exception as error:
            self.fail(name, f"could not be checked, {type(error).__name__}: {error}")

    def fail(self, name: str, detail: str) -> None:
        """Add a failure to a check."""
        self._failures[name].append(detail)

    def same(self, name: str, where: str, found: Any, expected: Any) -> bool:
        """Compare two small values, add a failure if they differ, and return whether they are equal."""
        if found != expected:
            shown = [clipped(repr(value), LONGEST) for value in (found, expected)]
            self.fail(name, f"{where} is {shown[0]}, expected {shown[1]}")
            return False
        return True

    def equal(
        self, name: str, where: str, found: npt.NDArray[Any], expected: npt.NDArray[Any], at: str = "row"
    ) -> bool:
        """Compare two arrays of shape (n,), add a failure if they differ, and return whether they agree."""
        if found.shape != expected.shape:
            self.fail(name, f"{where}: shape {found.shape}, expected {expected.shape}")
            return False
        differ = found != expected
        if not differ.any():
            return True
        first = int(np.argmax(differ))
        count = int(np.count_nonzero(differ))
        self.fail(
            name,
            f"{where}: {at} {first} is {found[first]}, expected {expected[first]}"
            f" ({count} of {len(found)} differ)",
        )
        return False

    def leave_unchecked(self, name: str, reason: str) -> None:
        """Note that a check, or a part of it, cannot run on this machine."""
        self._unchecked[name] = reason

    def unchecked(self, name: str) -> str | None:
        """Return why a check could not run; None if it could."""
        return self._unchecked.get(name)

    def failures(self, name: str) -> list[str]:
        """Return the failures of a check."""
        return self._failures[name]

    def has_begun(self, name: str) -> bool:
        """Return whether any part of a check has run."""
        return name in self._begun
