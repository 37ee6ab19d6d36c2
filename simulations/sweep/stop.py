"""Ctrl-C and SIGTERM, taken where nothing is torn: amid an import or Ray's own code they would be lost, or hang."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self


class Stop:
    """While it is entered either is noted, and raised by the next `check`; a second one is raised at once."""

    def __init__(self) -> None:
        """Ready to note Ctrl-C or SIGTERM during a sweep, while entered."""
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """From here on Ctrl-C and SIGTERM are noted, and stop the sweep at its next `check`."""
        if current_thread() is main_thread():  # where alone handlers are called
            self._before = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Give Ctrl-C and SIGTERM back to whoever handled them before the sweep."""
        for each, before in self._before.items():
            signal.signal(each, before)

    def _note(self, _: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C or SIGTERM: note that the sweep is to stop; the second time, stop at once."""
        self.check()
        self._asked = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if a sweep was asked to stop; called where nothing is torn by it."""
        if self._asked:
            raise KeyboardInterrupt
