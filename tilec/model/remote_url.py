"""URLs of remote caches, parsed; their passwords are never shown."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from urllib.parse import unquote, urlsplit

SCHEMES = ("https", "http", "s3", "gs", "az", "file")
_PORTS = {"https": 443, "http": 80}
# Characters that every parser of URLs reads as a host's; others could lead to another host.
_HOST = re.compile(r"[a-z0-9._-]*|[0-9a-f:.]+")
_SCHEME = re.compile(r"[A-Za-z0-9+.-]*://")
_ODD = re.compile(r"[\s\x00-\x1f\x7f-\uffff\\]")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RemoteUrl:
    """The URL of a remote cache.

    Attributes:
        scheme: one of `SCHEMES`.
        host: server, or bucket; empty for `file`.
        port: of the server; 0 for buckets and directories.
        path: below the host, without a slash at its end.
        user, password: from the URL; empty for none.
    """

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""
    user: str = dataclasses.field(default="", repr=False)
    password: str = dataclasses.field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> RemoteUrl:
        """Parse a URL.

        Raises:
            ValueError: it is not that of a remote cache; the message quotes it without its password.
        """
        shown = redacted(text)
        if _ODD.search(text):
            raise ValueError(f"{shown!r} has characters that no URL has")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError(f"{shown!r} is no URL") from None
        scheme, local = parts.scheme, parts.scheme == "file"
        above = ".." in unquote(parts.path).split("/")
        for wrong, fault in (
            (
                scheme not in SCHEMES,
                f"does not begin with one of {', '.join(f'{name}://' for name in SCHEMES)}",
            ),
            (
                parts.query or parts.fragment or "::" in parts.path or above,
                "has more than a host and a path",
            ),
            (not _HOST.fullmatch(host), "names no host that there can be"),
            (port == 0, "names no port that there can be"),
            (
                local and (host or not parts.path.startswith("/")),
                "names a host: write file:///path",
            ),
            (not local and not host, "names no host"),
            (
                scheme not in _PORTS and (parts.username or port),
                f"has a user or a port, which {scheme}:// has not",
            ),
        ):
            if wrong:
                raise ValueError(f"{shown!r} {fault}")
        return cls(
            scheme=scheme,
            host=host,
            port=port or _PORTS.get(scheme, 0),
            path=parts.path.rstrip("/"),
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS.get(self.scheme, 0) else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port, to which credentials are bound."""
        return (self.scheme, self.host, self.port)

    @property
    def loopback(self) -> bool:
        """Whether the server is this machine."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def redacted(text: str) -> str:
    """Return a text that may be a URL without user, password and query, however malformed it is."""
    if "@" in text:
        if re.search("[?#]", text):
            return "…"  # each may be a part of the other
        scheme = _SCHEME.match(text)
        return (scheme[0] if scheme else "") + text.rpartition("@")[2]
    return re.sub(r"([?#]).*", r"\1…", text, flags=re.DOTALL)
