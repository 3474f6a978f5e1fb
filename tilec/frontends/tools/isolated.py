"""Run a function in a forked process, so that its side effects in memory end with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")


def isolated(function: Callable[[], T]) -> T:
    """Call a function in a copy of this process, and return its result.

    The function sees the current memory of this process. Its result or exception is pickled.

    Raises:
        ChildProcessError: the process ended without a result.
        Exception: the exception of the function.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(function, sender))
    process.start()
    sender.close()
    answer: tuple[T, Exception | None]
    try:
        answer = receiver.recv()
    except EOFError:
        process.join()
        message = f"the process of a compile ended without a result (exit code {process.exitcode})"
        raise ChildProcessError(message) from None
    process.join()
    result, error = answer
    if error is not None:
        raise error
    return result


def _answer(function: Callable[[], T], sender: Connection) -> None:
    try:
        sender.send((function(), None))
    except Exception as exc:  # noqa: BLE001 - `isolated` raises it again
        sender.send((None, exc))
