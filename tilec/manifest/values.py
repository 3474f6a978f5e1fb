"""Patterns and conversions of text values: versions, licences, paths, sizes."""

from __future__ import annotations

import builtins
import keyword
import re
import sys

from tilec.model.link import LinkEntry
from tilec.model.remote_url import RemoteUrl
from tilec_runtime.model.arch import ARCHS, Target
from tilec_runtime.model.driver import BRANCHES
from tilec_runtime.model.operator import BackwardInfo
from tilec_runtime.model.suggest import nearest

IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
NAME_LIMIT = 100  # characters; a file name of at most 255 bytes has version, digest and suffix too
PART_LIMIT = 255  # bytes of one name in a path on Linux
WORD = "[A-Za-z0-9][A-Za-z0-9_-]*"
VERSION = (
    r"v?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*"
    r"(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?[0-9]*)?"
    r"(?:-[0-9]+|[-_.]?(?:post|rev|r)[-_.]?[0-9]*)?"
    r"(?:[-_.]?dev[-_.]?[0-9]*)?"
    r"(?:\+[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*)?"
)
_ID = r"\(*[A-Za-z0-9][A-Za-z0-9.+:-]*\)*"
LICENCE = rf"{_ID}(?: (?:AND|OR|WITH) {_ID})*"
RANGE = r" *(?:>=|<=|==|!=|~=|>|<) *[0-9]+(?:\.[0-9]+)*(?:\.\*)? *(?:, *(?:>=|<=|==|!=|~=|>|<) *[0-9]+(?:\.[0-9]+)*(?:\.\*)? *)*"
DRIVER = r"[0-9]{3,4}(?:\.[0-9]+){0,2}"
SIZE = r"[0-9]+(?:\.[0-9]+)? ?(?:B|KB|MB|GB|KiB|MiB|GiB)"
SYMBOL = rf"(?:::)?{IDENTIFIER}(?:::{IDENTIFIER})*(?: ?<.*>)?"
SOURCE = rf"[^:]+(?::{IDENTIFIER}(?:::{IDENTIFIER})*)?"
ARRAY = r".+\.npy|.+\.(?:npz|safetensors)(?::.+)?"
FUNCTION = rf"[^:]+:{IDENTIFIER}"
AGAINST = r"[A-Za-z][A-Za-z0-9_]*:.+"

PACKAGE_TYPES = (
    "Compiled",
    "DeviceLike",
    "Launcher",
    "LazyLaunch",
    "OrOp",
    "StreamLike",
    "StructLike",
    "TensorLike",
)
# Names that the generated package uses itself, including its types.
RESERVED = frozenset(
    (
        "ops",
        "compiled",
        "preload",
        "Module",
        "Ops",
        "Literal",
        "TypeVar",
        "overload",
        "torch",
        *PACKAGE_TYPES,
    )
)
_GENERATIONS = {
    "turing": "sm_75",
    "ampere": "sm_80",
    "ada": "sm_89",
    "hopper": "sm_90",
    "blackwell": "sm_100",
}
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def target_names() -> tuple[str, ...]:
    """Return the name of every target."""
    names: list[str] = []
    for kind in ("sm", "compute", "lto"):
        for (major, minor), arch in ARCHS.items():
            forms = (("", arch.ptx), ("f", arch.ptx_f), ("a", arch.ptx_a))
            names.extend(f"{kind}_{major}{minor}{suffix}" for suffix, isa in forms if isa)
    return (*names, "tileir")


def _named_targets() -> dict[str, str]:
    """Return targets by the name of a GPU or of a generation, in lower case."""
    gpus = {
        gpu.lower(): f"sm_{major}{minor}"
        for (major, minor), arch in ARCHS.items()
        for gpu in arch.gpus.split(", ")
    }
    return {**gpus, **_GENERATIONS}


def target(text: str) -> Target:
    """Return the target of a name.

    Raises:
        ValueError: the name is unknown; the message suggests a near one.
    """
    try:
        return Target.parse(text)
    except ValueError as error:
        plain = text.lower().replace(".", "")
        near = _named_targets().get(plain) or nearest(plain, target_names())
        raise ValueError(
            f"unknown target {text!r}; did you mean {near!r}" if near else str(error)
        ) from None


def looks_like_target(text: str) -> bool:
    """Return whether a name is a target, or looks like one."""
    return text == "tileir" or re.match(r"(sm|compute|lto)_?[0-9]", text) is not None


def project_path(text: str) -> str:
    """Return a path inside the project in its shortest form, with forward slashes.

    Raises:
        ValueError: it is absolute, leads out of the project, or is too long for file systems.
    """
    if "\\" in text:
        raise ValueError(f"{text!r} has a backslash: write paths with forward slashes")
    if not text.isprintable():
        raise ValueError(f"{text!r} has characters that cannot be printed")
    if text.startswith(("/", "~")) or re.match(r"[A-Za-z]:", text):
        raise ValueError(
            f"{text!r} is absolute: paths are relative to the directory of the manifest"
        )
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(
            f"{text!r} leads out of the project: sources and results lie below the manifest's directory"
        )
    longest = max((len(part.encode()) for part in parts), default=0)
    if longest > PART_LIMIT:
        raise ValueError(
            f"a name in the path has {longest} bytes, the most is {PART_LIMIT}: file systems take no longer one"
        )
    return "/".join(parts) or "."


def inner_path(text: str) -> str:
    """Return a path below the project's directory; refuse the directory itself."""
    path = project_path(text)
    if path == ".":
        raise ValueError(f"{text!r} is the project itself: name a directory or file in it")
    return path


def path_and_function(text: str) -> tuple[str, str]:
    """Return the two parts of `file.py:function`; the second may be empty."""
    file, _, function = text.partition(":")
    return inner_path(file), function


def link_entry(text: str) -> str:
    """Return an entry of `link` with a normalized path."""
    entry = inner_path(text)
    LinkEntry.parse(entry)
    return entry


def size(text: str) -> int:
    """Return a size such as `90 MiB` in bytes."""
    if not re.fullmatch(SIZE, text):
        raise ValueError(f"{text!r} is not a size such as 90 MiB")
    unit = text.lstrip("0123456789. ")
    amount = float(text.removesuffix(unit)) * _UNITS[unit]
    if 0 < amount < 1 or amount >= 2**63:
        raise ValueError(f"{text!r} is no sensible size")
    return int(amount)


def driver(version: str | int) -> int:
    """Return the branch of a driver version such as `580` or `580.65.06`."""
    branch = int(str(version).partition(".")[0])
    oldest = min(BRANCHES.values())
    if branch < oldest:
        raise ValueError(
            f"driver {version} is too old: the oldest branch that is known is {oldest}"
        )
    return branch


def free_extent(_text: str) -> None:
    """Return None, which stands for a free extent or stride."""


def backward(kernel: str) -> BackwardInfo:
    """Return a backward kernel whose parameters have the names of their arguments."""
    return BackwardInfo(kernel=kernel)


def one_line(text: str) -> str:
    """Return the text; refuse line ends and other control characters."""
    if not text.isprintable():
        raise ValueError("must be one line of printable text")
    return text


def module_name(text: str) -> str:
    """Return the name of a top-level module; refuse one that would hide another module."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError(
            f"{text!r} is {'a keyword' if keyword.iskeyword(text) else 'no identifier'} of Python"
        )
    if text.startswith("__"):
        raise ValueError(
            f"{text!r} cannot be a module: names with two underscores are Python's own"
        )
    if text in sys.stdlib_module_names or text in (
        "tilec",
        "tilec_runtime",
        "cuda",
        "numpy",
        "torch",
    ):
        raise ValueError(
            f"imported as {text!r} it would hide the module of that name: choose another name"
        )
    return text


def kernel_name_problem(name: str) -> str:
    """Return why a launcher cannot have this name, or an empty string."""
    if keyword.iskeyword(name):
        return f"{name!r} is a keyword of Python: a launcher cannot have this name"
    if name in RESERVED:
        return f"{name!r} is a name of the generated package itself: choose another"
    if name.startswith("_"):
        return (
            "names that start with an underscore are kept for the generated package: choose another"
        )
    if len(name) > NAME_LIMIT:
        return (
            f"the name has {len(name)} characters, the most is {NAME_LIMIT}: files are named by it"
        )
    return (
        f"{name!r} is a built-in name of Python, which a launcher would hide: choose another"
        if name in vars(builtins)
        else ""
    )


def licence(text: str) -> str:
    """Return an SPDX expression; refuse unbalanced parentheses."""
    if text.count("(") != text.count(")"):
        raise ValueError(f"{text!r} is not an SPDX expression: its parentheses do not match")
    return text


def remote_url(text: str) -> str:
    """Return the URL of a remote cache; refuse credentials, since manifests are public."""
    url = RemoteUrl.parse(text)
    if url.user or url.password:
        raise ValueError(
            f"{url.shown!r} has a user or a password: credentials come from ~/.netrc or TILEC_REMOTE_TOKEN"
        )
    return url.shown


def glob(text: str) -> str:
    """Return a glob over job ids; refuse white space."""
    if any(c.isspace() or not c.isprintable() for c in text):
        raise ValueError(f"{text!r} has white space, which no id has")
    return text
