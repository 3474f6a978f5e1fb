"""Check the options of [frontend.cuda] and of kernels; make compiler arguments."""

from __future__ import annotations

import dataclasses
import typing

from tilec.frontends.tools.cpp.flags import OptionError, read_flags
from tilec.model.job import Option, Options
from tilec.model.link import LinkEntry
from tilec_runtime.errors import UsageError

# nvcc starts its parts through a shell, which expands these characters in spite of nvcc's quotes.
_EXPANDED = "$`\\"
# Characters that are special to nvcc in names of directories.
_PARTED = f'{_EXPANDED},"'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CudaOptions:
    """The manifest's options for a CUDA source.

    Attributes:
        compiler: `nvrtc` or `nvcc`.
        std: C++ dialect.
        include: directories, relative to the project.
        define: macros; an empty value defines it as 1.
        flags: further flags of the compiler, without those of ptxas.
        ptxas: flags of ptxas.
        unchecked: whether flags unknown to tilec are accepted; cache keys do not cover the files
            that these read.
        group: most variants of the source to compile in one run; None to decide by the headers that
            it includes.
        link: files of device functions to link the kernel with.
    """

    compiler: str = "nvrtc"
    std: str = "c++17"
    include: tuple[str, ...] = ()
    define: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    ptxas: tuple[str, ...] = ()
    unchecked: bool = False
    group: int | None = None
    link: tuple[LinkEntry, ...] = ()

    def arguments(self, *, include: bool = True) -> list[str]:
        """Return dialect, include directories, defines and flags as compiler arguments."""
        define = [
            (name, _one_value(value) if self.compiler == "nvcc" else value)
            for name, value in self.define
        ]
        return [
            f"-std={self.std}",
            *(f"-I{path}" for path in self.include if include),
            *(f"-D{name}={value}" if value else f"-D{name}" for name, value in define),
            *self.flags,
        ]


def unspeakable(path: str) -> str:
    """Return the first character of a directory's name that nvcc cannot take, or ""."""
    return next((character for character in path if character in _PARTED), "")


def read_options(options: Options) -> CudaOptions:
    """Read options into their types; the manifest has checked keys and kinds of values.

    Raises:
        UsageError: a flag or text could do more than change the code.
    """
    values: dict[str, Option] = dict(options)
    compiler = str(values.get("compiler", "nvrtc"))
    unchecked = values.get("unchecked-flags") is True
    given = _texts(values.get("flags", ()))
    flags, ptxas = read_flags(given, compiler=compiler, unchecked=unchecked)
    group = values.get("group")
    read = CudaOptions(
        compiler=compiler,
        std=str(values.get("std", "c++17")),
        include=_texts(values.get("include", ())),
        define=typing.cast("tuple[tuple[str, str], ...]", values.get("define", ())),
        flags=flags,
        ptxas=ptxas,
        unchecked=unchecked,
        group=group if isinstance(group, int) else None,
        link=tuple(map(LinkEntry.parse, _texts(values.get("link", ())))),
    )
    if compiler == "nvcc":
        if read.link:
            raise OptionError(
                'compiler = "nvcc" links no device functions',
                path=("link",),
                fix='take compiler = "nvrtc", or include the file that defines them',
            )
        _refuse_expanded(read)
    return read


def of_tiles(options: Options) -> Options:
    """Return the options of a CUDA Tile C++ source: nvcc, and C++20 by default.

    Raises:
        UsageError: `compiler` names another compiler than nvcc.
    """
    given = dict(options)
    if given.get("compiler", "nvcc") != "nvcc":
        raise UsageError("CUDA Tile C++ is compiled by nvcc alone", fix="leave `compiler` out")
    return tuple(sorted({"std": "c++20", **given, "compiler": "nvcc"}.items()))


def _refuse_expanded(options: CudaOptions) -> None:
    """Refuse texts that the shell between nvcc and its parts would execute or split.

    `$(…)` in a macro's value, for example, would run a program.
    """
    for name, value in options.define:
        for character in value:
            if character in _EXPANDED:
                message = (
                    f"the value of {name} has {character!r}, which nvcc hands to a shell: {value!r}"
                )
                raise OptionError(
                    message,
                    path=("define", name),
                    fix='define the macro in a header, or take compiler = "nvrtc"',
                )
    for index, folder in enumerate(options.include):
        if character := unspeakable(folder):
            message = f"the directory {folder!r} has {character!r} in its name, which nvcc hands to a shell or takes for two names"
            raise OptionError(message, path=("include", index), fix="rename the directory")


def _one_value(value: str) -> str:
    """Escape commas in a macro's value for nvcc, which would define Y for `1,Y=2`."""
    parts = value.split('"')
    parts[::2] = [
        part.replace(",", "\\,") for part in parts[::2]
    ]  # nvcc does not split at commas in string literals
    return '"'.join(parts)


def _texts(value: Option) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
