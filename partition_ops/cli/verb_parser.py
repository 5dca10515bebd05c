"""What is wrong with the words of a call is said by the verb that they are for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


class VerbParser(argparse.ArgumentParser):
    """Where an option is unknown, prints its own usage and the nearest option, not the usage of all verbs."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = sys.argv[1:] if args is None else [*args]
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        super().error("\n  ".join([message, *self._meant()]))

    def _meant(self) -> list[str]:
        """What unknown options may have been meant to be; a verb of verbs leaves that to them."""
        if self._subparsers is not None:
            return []
        known = [*self._option_string_actions]
        options = [word.partition("=")[0] for word in self._words if word.startswith("--") and word != "--"]
        nearest = {word: get_close_matches(word, known, n=1) for word in options if word not in known}
        return [f"there is no {word}: did you mean {near[0]}?" for word, near in nearest.items() if near]
