"""Open prebuilt code: LTO-IR and NVVM IR as PTX, and the members of fatbins."""

from __future__ import annotations

import dataclasses
import importlib
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.ltoir import level
from tilec.frontends.tools.nvjitlink import Piece, link_ptx, taken, words
from tilec.frontends.tools.run import run_tool
from tilec.frontends.tools.search import Tool, require
from tilec_runtime.errors import CompileError, ToolchainError
from tilec_runtime.model.arch import Target

_NEEDS_ARCH = re.compile(r"\((\d+)\) in LTOIR arch newer than target")
_PLACE = re.compile(r"\((\d+), (\d+)\)")
_MEMBER = re.compile(r"^Fatbin (elf|ptx|nvvm|tile ir) code:\n=+\narch = sm_(\d+)", re.MULTILINE)
_NO_CODE = "does not contain device code"
_PATIENCE = 60  # seconds
_FIX = "pip install 'tilec[build]'"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Members:
    """The members of a fatbin.

    Attributes:
        files: cubins and PTX texts, extracted.
        others: (kind, architecture such as `90`) of LTO-IR and Tile IR, which are not extracted.
    """

    files: tuple[Prebuilt, ...]
    others: tuple[tuple[FileKind, str], ...]


class Opener:
    """Opens files, and caches the results by digest."""

    def __init__(self, search: ToolSearch) -> None:
        """Store the search settings."""
        self._search = search
        self._members: dict[str, Members] = {}
        self._texts: dict[tuple[object, ...], str] = {}

    def tool(self, name: str) -> Tool:
        """Return a tool without its digest.

        Raises:
            ToolchainError: it is missing.
        """
        return require((name,), self._search, digest=False)[name]

    def any_ptx(self, file: Prebuilt) -> str:
        """Return PTX for an old architecture, to read the declarations of LTO-IR or NVVM IR.

        Raises:
            CompileError: it is damaged.
            ToolchainError: a tool is missing.
        """
        if file.kind is FileKind.NVVM:
            try:
                return self.ptx(file, Target.parse("compute_75"))
            except CompileError:
                # From compute capability 10.0 on, libNVVM reads another dialect of LLVM IR.
                return self.ptx(file, Target.parse("compute_100"))
        if file.kind is FileKind.FATBIN:
            # nvJitLink silently skips members that are newer than its target.
            oldest = min(
                (number for kind, number in self.members(file).others if kind is FileKind.LTOIR),
                key=int,
            )
            return self.ptx(file, Target.parse(f"compute_{oldest}"))
        try:
            return self.ptx(file, Target.parse("compute_75"))
        except CompileError as exc:
            needs = _NEEDS_ARCH.search(exc.log)
            if needs is None:
                raise
        return self.ptx(file, Target.parse(f"compute_{needs[1]}"))

    def ptx(self, file: Prebuilt, target: Target, *, opt: int = 3, lineinfo: bool = False) -> str:
        """Return PTX of LTO-IR, NVVM IR or a fatbin's LTO-IR, for the architecture of `target`.

        Raises:
            CompileError: it cannot be compiled for that architecture, or is damaged; with the
                tool's log.
            ToolchainError: a tool is missing.
        """
        key = (file.digest, target.number, opt, lineinfo)
        if key not in self._texts:
            if file.kind is FileKind.NVVM:
                data = _compiled(file, target, opt, lineinfo=lineinfo).rstrip(b"\0 ")
                self._texts[key] = data.decode("utf-8", "surrogateescape")
            else:
                library = self.tool("libnvJitLink").path
                self._texts[key] = _linked(file, library, target, opt, lineinfo)
        return self._texts[key]

    def ltoir(self, file: Prebuilt, target: Target, *, opt: int = 3) -> bytes:
        """Return LTO-IR of a file of LTO-IR (its bytes), a fatbin, or NVVM IR.

        Raises:
            CompileError: NVVM IR cannot be compiled, or is damaged; with the tool's log.
            ToolchainError: a tool is missing, or too old to extract LTO-IR from a fatbin.
        """
        if file.kind is FileKind.LTOIR:
            return file.data
        if file.kind is FileKind.NVVM:
            return _compiled(file, target, opt, lineinfo=False, more=("-gen-lto",))
        done = link_ptx(
            self.tool("libnvJitLink").path,
            [Piece(name="k", kind="FATBIN", data=file.data)],
            [f"-arch=sm_{target.number}"],
            whole=True,
        )
        if not done.ltoir:
            message = f"{file.path}: nvJitLink takes no LTO-IR out of a fatbin: {_first(done.log) or 'it is older than CUDA 13.4'}"
            raise ToolchainError(
                message,
                fix="name the LTO-IR itself as a file (.ltoir), or pip install --upgrade 'tilec[build]'",
            )
        return done.ltoir

    def members(self, file: Prebuilt) -> Members:
        """Return the members of a fatbin.

        Raises:
            CompileError: it is damaged.
            ToolchainError: cuobjdump is missing.
        """
        if file.digest not in self._members:
            self._members[file.digest] = self._taken_apart(file)
        return self._members[file.digest]

    def _taken_apart(self, file: Prebuilt) -> Members:
        # The format of the container is not documented, and members are compressed in several ways:
        # use the toolkit's reader.
        tool = self.tool("cuobjdump").path
        with tempfile.TemporaryDirectory(prefix="tilec-fatbin-") as folder:
            Path(folder, "k.fatbin").write_bytes(file.data)
            listed = run_tool([tool, "k.fatbin"], timeout=_PATIENCE, cwd=folder)
            taken = run_tool(
                [tool, "-xelf", "all", "-xptx", "all", "k.fatbin"], timeout=_PATIENCE, cwd=folder
            )
            extracted = sorted(
                path for path in Path(folder).iterdir() if path.suffix in (".cubin", ".ptx")
            )
            files = tuple(
                Prebuilt(
                    path=f"{file.path} ({path.name})",
                    kind=FileKind.CUBIN if path.suffix == ".cubin" else FileKind.PTX,
                    data=path.read_bytes(),
                    digest=f"{file.digest}/{path.name}",
                )
                for path in extracted
            )
        names = {"nvvm": FileKind.LTOIR, "tile ir": FileKind.TILEIR}
        others = tuple(
            (names[m[1]], m[2]) for m in _MEMBER.finditer(listed.stdout) if m[1] in names
        )
        if listed.timed_out or taken.timed_out:
            message = f"cuobjdump did not come to its end within {_PATIENCE} s: the file has {len(file.data) >> 20} MiB"
            fix = (
                "take out the part that you mean, and name that: cuobjdump --extract-elf NAME FILE"
            )
            raise fault(file.path, message, fix=fix, overtime=True)
        if _NO_CODE in f"{listed.stdout}{listed.stderr}":
            raise fault(
                file.path,
                "there is no code for GPUs in it",
                cause="it was compiled for its host alone",
            )
        if listed.rc or taken.rc or not (files or others):
            words = (
                (taken.stderr or listed.stderr or listed.stdout)
                .strip()
                .replace(str(Path(folder, "k.fatbin")), file.path)
            )
            raise fault(
                file.path,
                f"the fatbin cannot be read: {words.splitlines()[0] if words else 'it has no members'}",
                cause="it is cut short or damaged, or was made by a newer toolkit",
                log=words,
                command=shlex.join(["cuobjdump", "-xelf", "all", "-xptx", "all", file.path]),
            )
        return Members(files=files, others=others)


def _linked(file: Prebuilt, library: str, target: Target, opt: int, lineinfo: bool) -> str:
    options = [f"-arch=sm_{target.number}", level(opt), *(["-lineinfo"] if lineinfo else [])]
    kind = "FATBIN" if file.kind is FileKind.FATBIN else "LTOIR"
    done = link_ptx(library, [Piece(name="k.ltoir", kind=kind, data=file.data)], options)
    if done.text:
        return done.text
    if needs := _NEEDS_ARCH.search(done.log):
        message = f"this LTO-IR was made for compute_{needs[1]}, which is newer than {target}"
        fix = f"make it for the oldest target (compute_{target.cc[0]}{target.cc[1]}), or take {target} out of the targets"
        raise fault(file.path, message, fix=fix, log=done.log)
    message = f"nvJitLink refuses this LTO-IR for {target}: {_first(done.log)}"
    raise fault(
        file.path, message, cause="it is damaged, or was made by a newer toolkit", log=done.log
    )


def _compiled(
    file: Prebuilt, target: Target, opt: int, *, lineinfo: bool, more: Sequence[str] = ()
) -> bytes:
    try:
        nvvm = importlib.import_module("cuda.bindings.nvvm")
    except ImportError as exc:
        raise ToolchainError(f"libnvvm cannot be used: {exc}", fix=_FIX) from exc
    options = [
        f"-arch=compute_{target.number}",
        f"-opt={3 if opt else 0}",
        *(["-generate-line-info"] if lineinfo else []),
        *more,
    ]
    program = nvvm.create_program()
    data = file.data.rstrip(b"\0") if b"\0" not in file.data.rstrip(b"\0") else file.data
    try:
        nvvm.add_module_to_program(program, data, len(data), "k.ll")
        nvvm.compile_program(program, len(options), options)
        return taken(nvvm.get_compiled_result_size, nvvm.get_compiled_result, program)
    except nvvm.nvvmError as exc:
        log = words(nvvm.get_program_log_size, nvvm.get_program_log, program)
        match = _PLACE.search(log)
        message = f"libNVVM refuses this NVVM IR for {target}: {_first(log) or exc}"
        cause = "libNVVM reads typed pointers up to compute capability 9.0 and opaque ones from 10.0 on; or the file is damaged"
        raise fault(
            file.path, message, line=int(match[1]) if match else 1, cause=cause, log=log
        ) from exc
    finally:
        nvvm.destroy_program(program)


def _first(log: str) -> str:
    return next((line.strip() for line in log.splitlines() if line.strip()), "")
