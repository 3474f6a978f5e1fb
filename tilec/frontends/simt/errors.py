"""Turn errors of numba into compile errors with the user's locations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilec.frontends.simt import api
from tilec.frontends.simt.declare import SimtKernel
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import located, traced, undefined_hint
from tilec_runtime.errors import CompileError, Location

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_PLACES = re.compile(r'File "([^"\n]+)", line (\d+)|\bat ([^\s()]+) \((\d+)\)')
# Lines of numba's messages that describe its passes instead of the problem.
_FRAMES = re.compile(
    r"^(Failed in .* mode pipeline|During: |There are \d+ candidate|Overload |Of which \d+ did not match|- Of which|Rejected as|"
    r"with error|raised from|File |Enable logging|In definition|All templates|No match\.|>>>|<source|-+$|\^+$|\*)"
)
# Messages that name internals of numba, and their replacements.
_SPELLED = (
    (
        re.compile(
            r"Function\(<(?:built-in function|function|intrinsic) ([\w.]+)(?: at 0x[0-9a-f]+)?>\)"
        ),
        r"\1",
    ),
    (re.compile(r"Function\(<class 'numba\.cuda\.stubs\.([\w.]+)'>\)"), r"cuda.\1"),
    (
        re.compile(r"<numba\S* object at 0x[0-9a-f]+>, \(List\(.*"),
        "a list of the module is no constant: make it a tuple",
    ),
    (
        re.compile(r"<numba\S*ExternFunction object at 0x[0-9a-f]+>"),
        "a function of cuda.declare_device",
    ),
    (re.compile(r"\.?\. Raised from .*"), ""),
    (re.compile(r"<ufunc '(\w+)'>"), r"numba-cuda does not compile numpy.\1 in kernels"),
    (
        re.compile(
            r"Cannot bind 'args=\((.*)\) kws=\{.*\}' to signature '(\(.*?\))' due to \"TypeError: (.*?)\"\.?"
        ),
        r"a function of \2 is called with (\1): \3",
    ),
    (
        re.compile(r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)' from '[^']*'>\)"),
        r"kernels have no \2.\1",
    ),
    (
        re.compile(r"'CUDATargetContext' object has no attribute 'build_(\w+)'"),
        r"kernels have no \1",
    ),
    (re.compile(r"\('wrong tuple length for \S+: ', '(.*)'\)"), r"wrong tuple length: \1"),
    (
        re.compile(r"^'([A-Za-z_]\w*)'$"),
        r"\1 is not known: the struct has no such field",
    ),  # numba's whole message is the name of the field
    (
        re.compile(r".*(?:insert_unresolved_ref|compiler re-entrant).*"),
        "a function calls itself, which numba does not compile for GPUs",
    ),
)
_MUT = "the array is only read: annotate it with simt.Mut, or say out = true"
_HINTS = (
    (re.compile(r"(?i)setitem\(readonly|cannot modify readonly|read-?only array"), _MUT),
    (
        re.compile(r"(?:shared|local)\.array"),
        "extents are constants: a number, simt.Const[int], simt.size(…); 0 takes them from launch.shared",
    ),
    (
        re.compile(r"Untyped global name.*axes\.\w+Axis"),
        "give the axis values in the kernel's matrix",
    ),
    (
        re.compile(r"Untyped global name"),
        "kernels see numbers, tuples, arrays of constants, and functions with @cuda.jit(device=True)",
    ),
    (
        re.compile(r"function (?:zeros|empty|ones|full)\b"),
        "a kernel makes arrays with cuda.shared.array and cuda.local.array",
    ),
    (
        re.compile(r"^<ufunc '"),
        "take the function of the module math, or of numba.cuda.libdevice; abs, min and max are Python's own",
    ),
    (
        re.compile(r"ExternFunction object at"),
        "call it as cuda.declare_device has it; and that has to be as CUDA C++ defines it",
    ),
    (
        re.compile(r"exception_match|not supported"),
        "numba-cuda's documentation lists what Python it compiles",
    ),
)


def kernel_error(
    exc: Exception, *, module: LoadedModule, kernel: SimtKernel, summary: str
) -> CompileError:
    """Return the error for a kernel that numba refused; `summary` starts its first line."""
    at = kernel.decl.location
    if isinstance(exc, api.ReturnsError):
        first = f"a kernel returns nothing, and this one returns {exc}"
        location = located(module.texts, at, first, hint="store results in a simt.Mut")
        return CompileError(f"{summary}: {first}", diagnostics=(location,))
    text = _COLOR.sub("", str(exc))
    first = _first(text) or type(exc).__name__
    locations = [(location, "") for location in dict.fromkeys(_locations(exc, text, module))]
    hint = undefined_hint(first, kernel.kernel.function) or next(
        (hint for pattern, hint in _HINTS if pattern.search(text)), ""
    )
    diagnostics = traced(module.texts, locations or [(at, "")], first, hint)
    return CompileError(
        f"{summary}: {first}", diagnostics=diagnostics, log=f"{type(exc).__name__}: {text}"
    )


def _locations(exc: Exception, text: str, module: LoadedModule) -> Iterator[Location]:
    """Yield the user's locations in an error, innermost first, as numba lists them."""
    for match in _PLACES.finditer(text):
        file, line = match[1] or match[3], int(match[2] or match[4])
        if file in module.texts:
            yield Location(file=file, line=line)
    first = next((location for location in api.places_of(exc) if location[0] in module.texts), None)
    if first is not None:
        yield Location(file=first[0], line=first[1])


def _first(text: str) -> str:
    """Return the problem in one line, with the signature of an unsupported operation."""
    lines = [line.strip() for line in text.splitlines()]
    kept = [line for line in lines if line and not _FRAMES.match(line)]
    first = kept[0] if kept else ""
    signature = next(
        (line.removeprefix(">>>").strip() for line in lines if line.startswith(">>>")), ""
    )
    completed = f"{first} {signature}" if first.endswith("for signature:") and signature else first
    for pattern, instead in _SPELLED:
        completed = pattern.sub(instead, completed)
    return completed
