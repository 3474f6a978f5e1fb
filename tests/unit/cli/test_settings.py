from __future__ import annotations

from pathlib import Path

import pytest

from tilec.cli.settings import parse_size, read_settings
from tilec_runtime.errors import UsageError

CWD = Path("/project")


@pytest.mark.parametrize(
    ("env", "cache"),
    [
        ({"HOME": "/home/me"}, "/home/me/.cache/tilec"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/var/cache/me"}, "/var/cache/me/tilec"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}, "/home/me/.cache/tilec"),
        ({"HOME": "/home/me", "TILEC_CACHE_DIR": "/shared/kernels"}, "/shared/kernels"),
        ({"HOME": "/home/me", "TILEC_CACHE_DIR": "here"}, "/project/here"),
        ({"HOME": "/home/me", "TILEC_CACHE_DIR": "off"}, None),
        ({}, None),
    ],
)
def test_cache_directory(env: dict[str, str], cache: str | None) -> None:
    assert read_settings(env, CWD).cache_dir == (Path(cache) if cache else None)


def test_a_cache_in_the_home_of_somebody_unknown() -> None:
    with pytest.raises(UsageError, match=r"TILEC_CACHE_DIR=~nobody-of-this-name/x: .+\n  fix: "):
        read_settings({"TILEC_CACHE_DIR": "~nobody-of-this-name/x"}, CWD)


def test_a_shared_directory_is_a_remote_cache_that_gives_pinned_images() -> None:
    env = {"TILEC_SHARED_CACHE": "../a team", "TILEC_REMOTE_TRUST": "own"}
    choice = read_settings(env, CWD).remote()
    assert choice.url == (CWD.parent / "a team").as_uri()
    assert (choice.mode, choice.own) == ("write", False)
    assert read_settings({**env, "TILEC_REMOTE_MODE": "read"}, CWD).remote().mode == "read"
    other = read_settings({**env, "TILEC_REMOTE_CACHE": "https://c"}, CWD).remote()
    assert (other.url, other.mode, other.own) == ("https://c", "", True)
    with pytest.raises(
        UsageError,
        match=r"TILEC_SHARED_CACHE=~nobody-of-this-name/x: .+\n  fix: give a path without ~$",
    ):
        read_settings({"TILEC_SHARED_CACHE": "~nobody-of-this-name/x"}, CWD).remote()


def test_the_remote_cache_by_options_then_by_the_environment() -> None:
    env = {
        "HOME": "/h",
        "TILEC_REMOTE_CACHE": "https://me:hunter2@c",
        "TILEC_REMOTE_MODE": "write",
        "TILEC_REMOTE_TRUST": "own",
        "TILEC_REMOTE_TOKEN": "hunter2",
        "HTTPS_PROXY": "proxy:3128",
        "no_proxy": "inside.example",
    }
    settings = read_settings(env, CWD)
    choice = settings.remote()
    assert (choice.url, choice.mode, choice.own, choice.wait) == (
        "https://me:hunter2@c", "write", True, 60.0
    )  # fmt: skip
    assert (choice.token, choice.token_for) == ("hunter2", choice.url)
    assert choice.netrc == Path("/h/.netrc")
    assert choice.proxy("https", "c") == "http://proxy:3128"
    assert choice.proxy("https", "inside.example") == choice.proxy("http", "c") == ""
    other = settings.remote(url="https://d", mode="read", trust="pinned", wait=5)
    assert (other.url, other.mode, other.own, other.wait) == ("https://d", "read", False, 5)
    assert other.token_for == choice.url
    assert "hunter2" not in repr((settings, choice, other))
    assert read_settings({"NETRC": "n"}, CWD).remote().netrc == CWD / "n"
    with pytest.raises(UsageError, match="'me' is not valid\n  fix: use pinned or own"):
        read_settings({"TILEC_REMOTE_TRUST": "me"}, CWD).remote()


@pytest.mark.parametrize(
    ("env", "color", "dumb"),
    [
        ({}, "auto", False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "never", False),
        ({"NO_COLOR": ""}, "auto", False),
        ({"FORCE_COLOR": "3"}, "always", False),
        ({"FORCE_COLOR": "0"}, "auto", False),
        ({"TERM": "dumb"}, "never", True),
    ],
)
def test_colors(env: dict[str, str], color: str, dumb: bool) -> None:
    settings = read_settings(env, CWD)
    assert (settings.color, settings.dumb) == (color, dumb)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("1 KiB", 1024),
        ("1.5GiB", 3 << 29),
        ("90MB", 90_000_000),
        ("0", 0),
        ("7 B", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--max-size") == size


@pytest.mark.parametrize("text", ["lots", "", "-1", "1 GiBs", "1e3 MB", f"{'9' * 400} GiB"])
def test_refuses_other_sizes(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--max-size: .* is no"):
        parse_size(text, "--max-size")


def test_a_bad_bound_of_the_cache_is_an_error_only_where_it_matters() -> None:
    settings = read_settings({"TILEC_CACHE_MAX": "lots"}, CWD)
    with pytest.raises(UsageError, match=r"^TILEC_CACHE_MAX: 'lots' is not a size such as 90 MiB"):
        _ = settings.cache_bytes
    assert read_settings({"TILEC_CACHE_MAX": "1 MiB"}, CWD).cache_bytes == 1 << 20
    assert read_settings({}, CWD).cache_bytes == 8 << 30


def test_reads_targets_of_builds(tmp_path: Path) -> None:
    found = read_settings({"TILEC_TARGETS": "sm_90, tileir"}, tmp_path)
    assert found.targets == ("sm_90", "tileir")
