"""`tilec cache`: show or trim the cache of compiled images."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.settings import parse_size
from tilec.cli.tables import bytes_text, plural, seconds_text
from tilec_runtime.errors import UsageError

if TYPE_CHECKING:
    from tilec.compile.cache import Cache
    from tilec.compile.remote.usage import Usage

_BUILDS = {"last": "last build", "total": "all builds"}


@click.group(
    epilog=examples(
        "tilec cache info",
        "tilec cache gc --max-size '1 GiB'",
        "tilec cache clear",
        "TILEC_CACHE_DIR=/scratch/tilec tilec cache info",
    )
    + "\n\nThe cache is TILEC_CACHE_DIR, or XDG_CACHE_HOME/tilec, or ~/.cache/tilec; TILEC_CACHE_DIR=off "
    "disables it. TILEC_CACHE_MAX limits its size. All checkouts and processes of one user share it. It "
    "is not used if another user may write to it. TILEC_REMOTE_CACHE names a second cache on a server or "
    "in a bucket, TILEC_SHARED_CACHE one in a directory that others may write to; both give the images "
    "that tilec.lock pins.",
)
def command() -> None:
    """Show, trim or clear the cache of compiled images. Builds compile missing images again."""


@command.command(
    short_help="Show the path and size of the cache.",
    epilog=examples("tilec cache info", "tilec cache info --json"),
)
@json_option
@click.pass_obj
def info(app: App) -> None:
    """Show the path and size of the cache, the number of its images, and the traffic with a remote
    cache.
    """
    cache = _open(app)
    summary = cache.info()
    from tilec.compile.remote.usage import recorded

    remote = dict(zip(("last", "total"), recorded(cache) or (), strict=False))
    if app.json:
        body = {
            "path": summary.path,
            "entries": summary.entries,
            "bytes": summary.bytes,
            "max_bytes": cache.max_bytes,
        }
        body |= {"oldest_seconds": round(summary.oldest)}
        usages = {name: dataclasses.asdict(usage) for name, usage in remote.items()}
        app.document("cache", body | {"remote": usages or None})
        return
    app.say(summary.path)
    size = f"{bytes_text(summary.bytes)} of at most {bytes_text(cache.max_bytes)}"
    oldest = f", the oldest last used {_age(summary.oldest)} ago" if summary.entries else ""
    app.say(f"{plural(summary.entries, 'entry')}, {size}{oldest}")
    for name, usage in remote.items():
        app.say(f"remote cache, {_BUILDS[name]}: {_usage_text(usage)}")


@command.command(
    short_help="Remove the least recently used images.",
    epilog=examples("tilec cache gc", "tilec cache gc --max-size '1 GiB'"),
)
@click.option("--max-size", metavar="SIZE", help="Size limit (default: TILEC_CACHE_MAX).")
@json_option
@click.pass_obj
def gc(app: App, max_size: str | None) -> None:
    """Remove the least recently used images until the cache fits its size limit."""
    bound = None if max_size is None else parse_size(max_size, "--max-size")
    cache = _open(app)
    _freed(app, cache, cache.gc(bound))


@command.command(
    short_help="Remove every image from the cache.", epilog=examples("tilec cache clear")
)
@json_option
@click.pass_obj
def clear(app: App) -> None:
    """Remove every image from the cache. Running builds compile missing images again."""
    cache = _open(app)
    _freed(app, cache, cache.clear())


def _open(app: App) -> Cache:
    from tilec.compile.cache import Cache

    settings = app.settings
    if settings.cache_dir is None:
        raise UsageError(
            "the cache is off",
            cause="TILEC_CACHE_DIR is off, or there is no home directory",
            fix="set TILEC_CACHE_DIR to a directory",
        )
    return Cache(settings.cache_dir, max_bytes=settings.cache_bytes, note=app.warn)


def _freed(app: App, cache: Cache, freed: int) -> None:
    left = cache.info()
    if app.json:
        app.document(
            "cache",
            {"path": left.path, "freed": freed, "entries": left.entries, "bytes": left.bytes},
        )
    else:
        app.say(
            f"freed {bytes_text(freed)}; {bytes_text(left.bytes)} left in {left.path}", wrap=False
        )


def _usage_text(usage: Usage) -> str:
    parts = [
        f"{plural(usage.hits, 'hit')}, {usage.misses} {'miss' if usage.misses == 1 else 'misses'}",
        f"{bytes_text(usage.down)} down, {bytes_text(usage.up)} up",
        f"{seconds_text(usage.saved)} of compiling saved",
    ]
    parts += [f"{usage.wrong} not used"] if usage.wrong else []
    parts += [f"{usage.failed} not uploaded"] if usage.failed else []
    return ", ".join(parts)


def _age(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return plural(int(seconds // size), unit)
    return "less than a minute"
