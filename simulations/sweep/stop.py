"""Ctrl-C, taken where nothing is torn: in the middle of an import or of Ray's own code it would be lost, or hang."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self


class Stop:
    """While it is entered Ctrl-C is noted, and raised by the next `check`; a second one is raised at once."""

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if current_thread() is main_thread():  # where alone handlers are called
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, _: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def check(self) -> None:
        """Stop here, if that was asked for."""
        if self._asked:
            raise KeyboardInterrupt
