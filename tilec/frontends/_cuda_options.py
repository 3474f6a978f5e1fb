"""The options of [frontend.cuda] and of a kernel, checked, and what a compiler is told because of them."""

from __future__ import annotations

import dataclasses
from pathlib import PurePosixPath

from tilec.errors import UsageError
from tilec.model.job import Option, Options
from tilec.model.link import LinkEntry, entries

_COMPILERS = ("nvrtc", "nvcc")
_STANDARDS = ("c++14", "c++17", "c++20", "c++23")
_KEYS = ("compiler", "std", "include", "define", "flags", "group", "link")
_MOST = 64

# Flags that tilec decides itself, with the key that says the same thing.
_OWNED = {
    "the targets": ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code"),
    "where results go": (
        "-o",
        "--output-file",
        "-odir",
        "--output-directory",
        "-keep",
        "--keep",
        "-keep-dir",
        "--keep-dir",
        "-time",
        "--time",
    ),
    "`include`": ("-I", "--include-path", "-isystem", "--system-include", "-include", "--pre-include", "--use-bundled-headers"),
    "`define`": ("-D", "--define-macro"),
    "`std`": ("-std", "--std"),
    "the profile's `lineinfo`": ("-lineinfo", "--generate-line-info"),
    "the profile's `debug`": ("-G", "--device-debug"),
    "the kind of output": (
        *("-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin", "-c", "--compile", "-dc", "--device-c", "-dw", "--device-w"),
        *("-dlto", "--dlink-time-opt", "-rdc", "--relocatable-device-code", "-lib", "-link", "-run", "-E", "-M", "-optix-ir", "--optix-ir"),
    ),
    "the language": ("-x", "--x"),
    "precompiled headers": ("-pch", "--pch", "--create-pch", "-create-pch", "--use-pch", "-use-pch", "--pch-dir", "-pch-dir"),
}
_JOINED = ("-I", "-D", "-o")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CudaOptions:
    """What the manifest says of a CUDA source.

    Attributes:
        compiler: `nvrtc` or `nvcc`.
        std: C++ dialect.
        include: directories, relative to the project.
        define: macros; an empty value defines it as 1.
        flags: further flags, ptxas' own taken out.
        ptxas: flags of ptxas.
        group: most variants of the source that are compiled in one go; None leaves that to what the source includes.
        link: files of device functions that the kernel is linked with.
    """

    compiler: str = "nvrtc"
    std: str = "c++17"
    include: tuple[str, ...] = ()
    define: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    ptxas: tuple[str, ...] = ()
    group: int | None = None
    link: tuple[LinkEntry, ...] = ()

    def arguments(self) -> list[str]:
        """Dialect, include directories, defines and flags in the spelling that NVRTC and nvcc share."""
        return [
            f"-std={self.std}",
            *(f"-I{path}" for path in self.include),
            *(f"-D{name}={value}" if value else f"-D{name}" for name, value in self.define),
            *self.flags,
        ]


def read_options(options: Options) -> CudaOptions:
    """Check and type the options.

    Raises:
        UsageError: an unknown key, a value of the wrong kind, or a flag that tilec sets itself.
    """
    values = dict(options)
    for key in values:
        if key not in _KEYS:
            raise UsageError(f"unknown option {key!r} of the cuda frontend", fix=f"known are {', '.join(_KEYS)}")
    flags, ptxas = _flags(_texts("flags", values.get("flags", ())))
    return CudaOptions(
        compiler=_choice("compiler", values.get("compiler", "nvrtc"), _COMPILERS),
        std=_choice("std", values.get("std", "c++17"), _STANDARDS),
        include=tuple(_directory(path) for path in _texts("include", values.get("include", ()))),
        define=_pairs(values.get("define", ())),
        flags=flags,
        ptxas=ptxas,
        group=_count("group", values["group"]) if "group" in values else None,
        link=_linked(_texts("link", values.get("link", ()))),
    )


def _count(key: str, value: Option) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise UsageError(f"{key} = {value!r} must be a number from 1 to {_MOST}")
    return value


def _choice(key: str, value: Option, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UsageError(f"{key} = {value!r} is not known to the cuda frontend", fix=f"one of {', '.join(known)}")
    return str(value)


def _texts(key: str, value: Option) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
        raise UsageError(f"{key} must be a list of texts, not {value!r}")
    return tuple(str(v) for v in value)


def _linked(texts: tuple[str, ...]) -> tuple[LinkEntry, ...]:
    try:
        return entries(texts)
    except ValueError as exc:
        raise UsageError(f"link: {exc}") from exc


def _pairs(value: Option) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, tuple):
        raise UsageError(f"define must be a table of names and values, not {value!r}")
    pairs = []
    for entry in value:
        name, text = (entry, "") if isinstance(entry, str) else entry
        if not name.replace("_", "a").isalnum() or name[:1].isdigit():
            raise UsageError(f"define: {name!r} is no macro name")
        if "\n" in text:
            raise UsageError(f"define: the value of {name} has more than one line")
        pairs.append((name, text))
    return tuple(pairs)


def _directory(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute():
        raise UsageError(
            f"include directory {path!r} is absolute", fix="give it relative to the project, so that every checkout builds the same"
        )
    return str(pure)


def _flags(flags: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    kept: list[str] = []
    ptxas: list[str] = []
    waiting = ""
    for flag in flags:
        if waiting:
            flag, waiting = f"{waiting}={flag}", ""
        name, _, value = flag.partition("=")
        owner = next(
            (key for key, names in _OWNED.items() if name in names or flag.startswith(tuple(n for n in names if n in _JOINED))), ""
        )
        if owner:
            raise UsageError(f"flags: {flag} is not yours to set: tilec decides {owner}", fix="take it out of `flags`")
        if name in ("-Xptxas", "--ptxas-options", "-maxrregcount", "--maxrregcount"):
            if not value:
                waiting = name
            elif name.endswith("maxrregcount"):
                ptxas += ["-maxrregcount", value]
            else:
                ptxas += value.split(",")
            continue
        kept.append(flag)
    if waiting:
        raise UsageError(f"flags: {waiting} needs a value")
    return tuple(kept), tuple(ptxas)
