"""Check the compiler flags of a manifest against the known flags, and explain refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tilec_runtime.errors import UsageError
from tilec_runtime.model.suggest import did_you_mean

_BOTH = ("nvrtc", "nvcc")
_NVRTC = ("nvrtc",)
_NVCC = ("nvcc",)
_PTXAS = ("ptxas",)

# Kinds of values: (pattern, the words of an error).
_NONE = ("", "no value")
_BOOL = ("true|false", "true or false")
_COUNT = ("[0-9]{1,6}", "a number")
_LEVEL = ("[0-3]", "a number from 0 to 3")
_NUMBERS = ("[0-9]{1,6}(?:,[0-9]{1,6})*", "numbers of diagnostics, by comma")
_MACRO = ("[A-Za-z_][A-Za-z0-9_]*", "a macro's name")
_FAST = ("0|min|mid|max", "one of 0, min, mid, max")
_INLINE = ("inline", "inline")
_ON = ("on", "on")
_STREAM = ("legacy|null|per-thread", "one of legacy, null, per-thread")
_WARNINGS = ("[a-z-]+(?:,[a-z-]+)*", "kinds of warnings, by comma")
_REGISTERS = ("[0-9]{1,3}|archmax|archmin", "a number of registers")
_LOADS = ("ca|cg|cs|lu|cv", "one of ca, cg, cs, lu, cv")
_STORES = ("wb|cg|cs|wt", "one of wb, cg, cs, wt")
_USAGE = ("10|[0-9]", "a number from 0 to 10")

_Row = tuple[str, tuple[str, str], tuple[str, ...]]

# Spellings, value and programs of every accepted flag. Each changes the code or the messages, and
# nothing else: none writes a file, reads a file or runs a program. A cache key therefore needs
# only the flag's text.
_ROWS: tuple[_Row, ...] = (
    ("--use_fast_math -use_fast_math", _NONE, _BOTH),
    ("--ftz -ftz", _BOOL, _BOTH),
    ("--prec-div -prec-div", _BOOL, _BOTH),
    ("--prec-sqrt -prec-sqrt", _BOOL, _BOTH),
    ("--fmad -fmad", _BOOL, _BOTH),
    ("--extra-device-vectorization -extra-device-vectorization", _NONE, _BOTH),
    ("--restrict -restrict", _NONE, _BOTH),
    ("--maxrregcount -maxrregcount", _REGISTERS, _BOTH),
    ("--ptxas-options -Xptxas", (".+", "flags of ptxas"), _BOTH),
    ("--Ofast-compile -Ofc", _FAST, _BOTH),
    ("--dopt -dopt", _ON, _BOTH),
    ("--jump-table-density -jtd", _COUNT, _BOTH),
    ("--device-stack-protector -device-stack-protector", _BOOL, _BOTH),
    ("--optimization-info -opt-info", _INLINE, _BOTH),
    ("--undefine-macro -U", _MACRO, _BOTH),
    ("--disable-warnings -w", _NONE, _BOTH),
    ("--Wreorder -Wreorder", _NONE, _BOTH),
    ("--display-error-number -err-no", _NONE, _BOTH),
    ("--no-display-error-number -no-err-no", _NONE, _BOTH),
    ("--diag-error -diag-error", _NUMBERS, _BOTH),
    ("--diag-suppress -diag-suppress", _NUMBERS, _BOTH),
    ("--diag-warn -diag-warn", _NUMBERS, _BOTH),
    ("--brief-diagnostics -brief-diag", _BOOL, _BOTH),
    ("-Werror", _WARNINGS, _BOTH),
    ("--warning-as-error", _WARNINGS, _NVRTC),
    ("--device-as-default-execution-space -default-device", _NONE, _NVRTC),
    ("--device-int128 -device-int128", _NONE, _NVRTC),
    ("--device-float128 -device-float128", _NONE, _NVRTC),
    ("--builtin-move-forward -builtin-move-forward", _BOOL, _NVRTC),
    ("--builtin-initializer-list -builtin-initializer-list", _BOOL, _NVRTC),
    ("--no-source-include -no-source-include", _NONE, _NVRTC),
    ("--minimal -minimal", _NONE, _NVRTC),
    ("--Werror", _WARNINGS, _NVCC),
    ("--expt-relaxed-constexpr -expt-relaxed-constexpr", _NONE, _NVCC),
    (
        "--extended-lambda -extended-lambda --expt-extended-lambda -expt-extended-lambda",
        _NONE,
        _NVCC,
    ),
    ("--default-stream -default-stream", _STREAM, _NVCC),
    ("--allow-unsupported-compiler -allow-unsupported-compiler", _NONE, _NVCC),
    ("--keep-device-functions -keep-device-functions", _NONE, _NVCC),
    ("--no-host-device-initializer-list -nohdinitlist", _NONE, _NVCC),
    ("--no-host-device-move-forward -nohdmoveforward", _NONE, _NVCC),
    ("--ftemplate-depth -ftemplate-depth", _COUNT, _NVCC),
    ("--ftemplate-backtrace-limit -ftemplate-backtrace-limit", _COUNT, _NVCC),
    ("--fmax-errors -fmax-errors", _COUNT, _NVCC),
    ("--optimize -O", _LEVEL, _NVCC),
    ("--machine -m", ("64", "64"), _NVCC),
    ("--m64 -m64", _NONE, _NVCC),
    ("--resource-usage -res-usage", _NONE, _NVCC),
    ("--Wdefault-stream-launch -Wdefault-stream-launch", _NONE, _NVCC),
    ("--Wmissing-launch-bounds -Wmissing-launch-bounds", _NONE, _NVCC),
    ("--Wext-lambda-captures-this -Wext-lambda-captures-this", _NONE, _NVCC),
    ("--Wno-deprecated-declarations -Wno-deprecated-declarations", _NONE, _NVCC),
    ("--Wno-deprecated-gpu-targets -Wno-deprecated-gpu-targets", _NONE, _NVCC),
    ("--Wconversion -Wconversion", _NONE, _NVCC),
    ("--opt-level -O", _LEVEL, _PTXAS),
    ("--Ofast-compile -Ofc", _FAST, _PTXAS),
    ("--maxrregcount -maxrregcount", _REGISTERS, _PTXAS),
    ("--device-function-maxrregcount -func-maxrregcount", _REGISTERS, _PTXAS),
    ("--minnctapersm -minnctapersm", _COUNT, _PTXAS),
    ("--register-usage-level -regUsageLevel", _USAGE, _PTXAS),
    ("--allow-expensive-optimizations -allow-expensive-optimizations", _BOOL, _PTXAS),
    ("--def-load-cache -dlcm", _LOADS, _PTXAS),
    ("--def-store-cache -dscm", _STORES, _PTXAS),
    ("--force-load-cache -flcm", _LOADS, _PTXAS),
    ("--force-store-cache -fscm", _STORES, _PTXAS),
    ("--fmad -fmad", _BOOL, _PTXAS),
    ("--enable-func-clone-sc -enable-func-clone-sc", _BOOL, _PTXAS),
    ("--device-stack-protector -device-stack-protector", _BOOL, _PTXAS),
    ("--disable-optimizer-constants -disable-optimizer-consts", _NONE, _PTXAS),
    ("--dont-merge-basicblocks -no-bb-merge", _NONE, _PTXAS),
    ("--legacy-bar-warp-wide-behavior -legacy-bar-warp-wide-behavior", _NONE, _PTXAS),
    ("--make-errors-visible-at-exit -make-errors-visible-at-exit", _NONE, _PTXAS),
    ("--optimize-float-atomics -opt-fp-atomics", _NONE, _PTXAS),
    ("--override-directive-values -override-directive-values", _NONE, _PTXAS),
    ("--return-at-end -ret-end", _NONE, _PTXAS),
    ("--sp-bounds-check -sp-bounds-check", _NONE, _PTXAS),
    ("--disable-warnings -w", _NONE, _PTXAS),
    ("--verbose -v", _NONE, _PTXAS),
    ("--warn-on-double-precision-use -warn-double-usage", _NONE, _PTXAS),
    ("--warn-on-local-memory-usage -warn-lmem-usage", _NONE, _PTXAS),
    ("--warn-on-spills -warn-spills", _NONE, _PTXAS),
    ("--warning-as-error -Werror", _NONE, _PTXAS),
    (
        "--suppress-async-bulk-multicast-advisory-warning -suppress-async-bulk-multicast-advisory-warning",
        _NONE,
        _PTXAS,
    ),
    ("--suppress-double-demote-warning -suppress-double-demote-warning", _NONE, _PTXAS),
    ("--suppress-sparse-mma-advisory-info -suppress-sparse-mma-advisory-info", _NONE, _PTXAS),
    ("--suppress-stack-size-warning -suppress-stack-size-warning", _NONE, _PTXAS),
)
KNOWN: Mapping[tuple[str, str], tuple[str, str]] = {
    (tool, name): value for names, value, tools in _ROWS for tool in tools for name in names.split()
}
"""Kind of the value (pattern, words) by program and spelling."""

# Flags (without dashes) that tilec sets itself, by the setting that decides them.
_OWNED = {
    "the targets": "arch gpu-architecture gencode generate-code code gpu-code gpu-name entries e entry",
    "where results go": "o output-file odir output-directory",
    "`include`": "I include-path isystem system-include include pre-include use-bundled-headers",
    "`define`": "D define-macro",
    "`std`": "std",
    "the profile's `lineinfo`": "lineinfo generate-line-info",
    "the profile's `debug`": "G g device-debug debug",
    "the kind of output": "ptx cubin fatbin ltoir optix-ir cuda c compile compile-only dc device-c dw device-w dlink device-link lto dlto "
    "dlink-time-opt rdc relocatable-device-code lib link E preprocess tilebc enable-tile tile-only simt-only tilecubin tilefatbin dryrun "
    "fdevice-syntax-only shared",
    "the language": "x",
    "precompiled headers": "pch create-pch use-pch pch-dir",
    "the seed of local names": "frandom-seed",
}
# Flags (without dashes) that are refused even with unchecked-flags, by the reason.
_REFUSED = {
    "runs a program that it names": "ccbin compiler-bindir arbin archiver-binary run run-args B fplugin wrapper",
    "hands options on to another program, where tilec cannot look at them": "Xcompiler compiler-options Xlinker linker-options Xarchive "
    "archive-options Xnvlink nvlink-options Xnvprune nvprune-options Xtileiras tileiras-options Xcudafe Xcicc Xopencc mllvm "
    "forward-unknown-opts forward-unknown-to-host-compiler forward-unknown-to-host-linker",
    "writes files": "keep keep-dir save-temps time fdevice-time-trace M MM MD MMD MF MP MT generate-dependencies dependency-output "
    "generate-nonsystem-dependencies generate-dependencies-with-compile generate-nonsystem-dependencies-with-compile "
    "generate-dependency-targets dependency-target-name objtemp objdir-as-tempdir clean clean-targets hls host-linker-script",
    "reads files that it names": "optf options-file apply-controls L library-path l library ldir libdevice-directory target-dir "
    "target-directory idp input-drive-prefix ddp dependency-drive-prefix dp drive-prefix ias input-as-string",
}
_OWNERS = {name: owner for owner, names in _OWNED.items() for name in names.split()}
_WHY = {name: why for why, names in _REFUSED.items() for name in names.split()}
_JOINED = "IDoLlBx"  # letters whose value may follow without a space
_INSTEAD = {
    "ccbin": "the host compiler is the gcc of PATH",
    "compiler-bindir": "the host compiler is the gcc of PATH",
    "l": "say `link` for device code",
    "library": "say `link` for device code",
}


class OptionError(UsageError):
    """An option is refused; `path` leads from the table of options to the value."""

    def __init__(self, message: str, *, path: tuple[str | int, ...], fix: str) -> None:
        super().__init__(f"{path[0]}: {message}", fix=fix)
        self.path = path


def read_flags(
    flags: Sequence[str], *, compiler: str, unchecked: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Check flags, and return those of the compiler and those of ptxas, which tilec runs itself.

    Args:
        flags: flags of the manifest; a value follows `=` or is the next item.
        compiler: `nvrtc` or `nvcc`.
        unchecked: accept flags that tilec does not know.

    Raises:
        OptionError: a flag is refused.
    """
    kept: list[str] = []
    ptxas: list[str] = []
    for index, flag in _with_values(list(enumerate(flags)), compiler):
        name, _, value = flag.partition("=")
        if (compiler, name) in KNOWN and name in ("-Xptxas", "--ptxas-options"):
            for _, own in _with_values([(index, word) for word in value.split(",")], "ptxas"):
                _check(own, "ptxas", index, unchecked)
                ptxas.append(own)
            continue
        _check(flag, compiler, index, unchecked)
        if name in ("-maxrregcount", "--maxrregcount"):
            ptxas += ["-maxrregcount", value]
        else:
            kept.append(flag)
    return tuple(kept), tuple(ptxas)


def _with_values(words: Sequence[tuple[int, str]], tool: str) -> Iterator[tuple[int, str]]:
    """Yield flags; a value that is a separate word is joined to its flag."""
    rest = iter(words)
    for index, flag in rest:
        if KNOWN.get((tool, flag), _NONE) is _NONE:
            yield index, flag
            continue
        _, value = next(rest, (0, ""))
        if not value:
            raise OptionError(
                f"{flag!r} needs a value: {KNOWN[tool, flag][1]}",
                path=("flags", index),
                fix=f'write "{flag}=…"',
            )
        yield index, f"{flag}{'' if _is_letter(flag) else '='}{value}"


def _is_letter(flag: str) -> bool:
    return len(flag) == 2  # such as `-O`, whose value follows without `=`: `-O3`


def _check(flag: str, tool: str, index: int, unchecked: bool) -> None:
    """Refuse a flag that is unknown or has a wrong value.

    Unknown flags pass if `unchecked`, but for those that tilec sets itself or always refuses.
    """
    if flag != flag.strip():
        message = f"{flag!r} begins or ends with white space, which some tools pass over"
        raise OptionError(message, path=("flags", index), fix="write the flag without it")
    name, equals, value = flag.partition("=")
    if (tool, flag) not in KNOWN and KNOWN.get((tool, flag[:2]), _NONE) is not _NONE and not equals:
        name, equals, value = flag[:2], "=", flag[2:]
    kind = KNOWN.get((tool, name))
    if kind is not None:
        if not re.fullmatch(kind[0], value) or bool(equals) != bool(kind[0]):
            raise OptionError(
                f"{name} takes {kind[1]}, not {value!r}",
                path=("flags", index),
                fix="correct its value",
            )
        return
    bare = name.lstrip("-")
    if bare not in _OWNERS and bare not in _WHY and re.match(f"-[{_JOINED}]", flag):
        bare = flag[1]
    if bare in _OWNERS:
        message = f"{flag!r} is not yours to set: tilec decides {_OWNERS[bare]}"
        raise OptionError(message, path=("flags", index), fix="take it out of `flags`")
    if bare in _WHY or flag[:1] == "@":
        why = _WHY.get(bare, "reads files that it names")
        fix = f"leave it out; {_INSTEAD[bare]}" if bare in _INSTEAD else "leave it out"
        raise OptionError(
            f"{flag!r} {why}, which no cache key covers", path=("flags", index), fix=fix
        )
    if not unchecked:
        raise _unknown(flag, name, tool, index)


def _unknown(flag: str, name: str, tool: str, index: int) -> OptionError:
    others = [program for program in ("nvrtc", "nvcc", "ptxas") if (program, name) in KNOWN]
    if others:
        change = (
            f'write "-Xptxas={flag}"'
            if others == ["ptxas"]
            else f'take it out, or say compiler = "{others[0]}"'
        )
        if tool == "ptxas":
            change = "write it without -Xptxas"
        return OptionError(
            f"{flag!r} is a flag of {others[0]}, and these are for {tool}",
            path=("flags", index),
            fix=change,
        )
    known = did_you_mean(name, [spelling for program, spelling in KNOWN if program == tool])
    return OptionError(
        f"{flag!r} is no flag of {tool} that tilec knows: it may read or write files that no cache key covers{known}",
        path=("flags", index),
        fix="correct it; a flag of a newer toolkit needs unchecked-flags = true beside `flags`, and its kernels are then never cached",
    )
