"""Credentials and proxies from the environment, for builds and cluster workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def netrc_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the file of credentials by host, or None without a home.

    It is `NETRC`, or `~/.netrc`.
    """
    if environ.get("NETRC"):
        return cwd / environ["NETRC"]
    return Path(environ["HOME"], ".netrc") if environ.get("HOME") else None


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of http_proxy, https_proxy and no_proxy, in either case."""
    lower = {name.lower(): value for name, value in environ.items() if value}
    names = ("http", "https", "no")
    return {name: lower[f"{name}_proxy"] for name in names if f"{name}_proxy" in lower}


def proxy_for(named: Mapping[str, str], scheme: str, host: str) -> str:
    """Return the URL of the proxy for a scheme and host; empty for none."""
    from urllib.request import proxy_bypass

    proxy = named.get(scheme, "")
    if not proxy or proxy_bypass(host, named):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"
