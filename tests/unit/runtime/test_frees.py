"""Frees that wait for a better moment."""

from __future__ import annotations

from tilec_runtime.device.frees import Frees


def test_a_free_may_lead_to_another_drain() -> None:
    frees, made = Frees(), []
    frees.later(frees.drain)
    frees.later(lambda: made.append("free"))
    frees.drain()
    assert made == ["free"]


def test_nothing_is_freed_inside_of_the_collector_or_twice_after_a_fork() -> None:
    frees, made = Frees(), []
    frees.later(lambda: made.append("free"))
    frees.note("start", None)
    frees.drain()
    assert made == []
    frees.renew()
    frees.drain()
    assert made == [], "the parent frees it"
