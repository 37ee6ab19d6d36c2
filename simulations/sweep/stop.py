"""Ctrl-C and SIGTERM, taken where nothing is torn: amid an import or Ray's own code they would be lost, or hang."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self


class Stop:
    """While it is entered either is noted, and raised by the next `check`; a second one is raised at once."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if current_thread() is main_thread():  # where alone handlers are called
            self._before = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)

    def _note(self, _: int, frame: FrameType | None) -> None:
        self.check()
        self._asked = True

    def check(self) -> None:
        """Stop here, if that was asked for."""
        if self._asked:
            raise KeyboardInterrupt
