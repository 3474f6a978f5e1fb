"""Calls of Triton: import, kernels, stages of its compiler.

Only this module uses private names of Triton.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilec.frontends.tools.environment import variables_hidden
from tilec.frontends.triton.heuristics import Computed, Rule, apply
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.tensormap import TensorMap

# The tested version: this file uses private parts, which change between minor versions.
TESTED: Version = (3, 9)
FIX = "pip install 'tilec[triton]'"
HINTS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "fp_fusion")
# Triton appends two addresses to the arguments of the function: scratch memory, and the profiler's
# memory.
HIDDEN = 2
NAMES = {
    "bool": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "u8": "u8",
    "u16": "u16",
    "u32": "u32",
    "u64": "u64",
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "fp32",
    "f64": "fp64",
    "f8e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5",
}
"""Triton's names of dtypes, by tilec's."""
NONE = "None"
"""The axis value that stands for None, which TOML lacks."""
_DTYPES = {name: dtype for dtype, name in NAMES.items()} | {"u1": "bool", "int1": "bool"}
# Prefixes of environment variables that change the code of Triton, MLIR and LLVM. They are hidden:
# a build depends on its inputs only.
_READ = (
    "TRITON_",
    "MLIR_",
    "LLVM_",
    "NVPTX_",
    "PROTON_",
    "USE_IR_LOC",
    "DISABLE_",
    "PTXAS_",
    "ALLOW_LHS_TMEM",
    "ENABLE_LHS_",
    "STORE_TMEM_",
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter of a kernel's function as Triton sees it.

    Attributes:
        name: its name.
        constant: whether it is annotated as `tl.constexpr`.
        dtype: dtype of its annotation; may be empty.
        pointer: whether the annotation is a pointer to elements of that dtype.
        descriptor: whether it is annotated as a tensor descriptor.
        value: whether Triton may specialize for its value.
        align: whether Triton may specialize for its divisibility.
        default: default value, or None.
    """

    name: str
    constant: bool = False
    dtype: str = ""
    pointer: bool = False
    descriptor: bool = False
    value: bool = True
    align: bool = True
    default: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A compiled kernel.

    Attributes:
        ptx: the PTX text.
        symbol: name of the entry point.
        threads: threads of a block.
        shared: dynamic shared memory of a block in bytes.
        clusters: blocks of a cluster.
        scratch: bytes of scratch memory per program.
        profile: bytes of the profiler's memory per program.
        fusion: whether multiplications and additions may be fused.
        log: output of the compiler.
        maps: tensor maps of the descriptors among its arguments.
    """

    ptx: str
    symbol: str
    threads: int
    shared: int
    clusters: int
    scratch: int
    profile: int
    fusion: bool
    log: str
    maps: tuple[TensorMap, ...] = ()


class StageError(Exception):
    """A stage of the compiler failed; `log` is its output."""

    def __init__(self, stage: str, log: str) -> None:
        """Store the stage and its output."""
        super().__init__(stage, log)
        self.stage = stage
        self.log = log


def environment() -> contextlib.AbstractContextManager[None]:
    """Hide the environment variables that Triton, MLIR and LLVM read."""
    return variables_hidden(_READ, TRITON_DEFAULT_FP_FUSION="1")


def load() -> Any:
    """Import and return `triton`.

    Raises:
        ToolchainError: it is missing, or of an untested version.
    """
    try:
        with environment():
            import triton
            import triton.compiler
    except ImportError as exc:
        raise ToolchainError(f"triton cannot be imported: {exc}", fix=FIX) from exc
    return triton


def kernel_of(value: Any) -> Any:
    """Return the `@triton.jit` function that a value is or wraps, or None.

    The wrappers are `@triton.autotune` and `@triton.heuristics`.
    """
    if "triton" not in sys.modules:
        return None
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    while isinstance(value, Autotuner | Heuristics):
        value = value.fn
    if (
        not isinstance(value, JITFunction)
        or value.is_gluon()
        or value.__module__.partition(".")[0] == "triton"
    ):
        return None
    return value


def function_of(kernel: Any) -> FunctionType:
    """Return the Python function of a kernel."""
    function: FunctionType = kernel.fn
    return function


def definition_line(kernel: Any) -> int:
    """Return the line of a kernel's `def`; errors of Triton count lines from it."""
    return int(kernel.def_file_line_number)


def parameters_of(kernel: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel's function, in order."""
    parameters = []
    for param in kernel.params:
        text = str(param.annotation)
        element = text.removeprefix("*k").removeprefix("*")
        default = param.default if param.has_default else None
        if param.has_default and default is None and param.is_constexpr:
            default = NONE
        parameters.append(
            Parameter(
                name=param.name,
                constant=bool(param.is_constexpr),
                dtype=_DTYPES.get(element, ""),
                pointer=text.startswith("*"),
                descriptor="tensor_descriptor" in text or "tensordesc" in text,
                value=not param.do_not_specialize,
                align=not (param.do_not_specialize or param.do_not_specialize_on_alignment),
                default=default if isinstance(default, bool | int | float | str) else None,
            )
        )
    return tuple(parameters)


def configs_of(
    value: object, params: Sequence[Parameter]
) -> tuple[tuple[dict[str, object], ...], dict[str, Computed]]:
    """Return the configurations of a kernel, and the constants that its heuristics compute.

    There is a configuration of constants and hints for each one of `@triton.autotune`. It includes
    the values of `@triton.heuristics` that follow from its constants and from defaults.
    """
    from triton.runtime.autotuner import Autotuner, Heuristics

    configs: list[dict[str, object]] = [{}]
    rules: list[tuple[str, Rule]] = []
    while isinstance(value, Autotuner | Heuristics):
        if isinstance(value, Autotuner):
            configs = [_config(each) for each in value.configs]
        else:
            rules = [*value.values.items(), *rules]  # the innermost are computed first
        value = value.fn
    if all(config.get("num_ctas", 1) == 1 for config in configs):
        configs = [{k: v for k, v in config.items() if k != "num_ctas"} for config in configs]
    defaults = {param.name: param.default for param in params if param.default is not None}
    computed: dict[str, Computed] = {}
    for config in configs:
        computed = apply(rules, config, defaults)
    return tuple(configs), computed


def _config(config: object) -> dict[str, object]:
    hints = {name: getattr(config, name, None) for name in HINTS}
    return {
        **getattr(config, "kwargs", {}),
        **{name: value for name, value in hints.items() if value is not None},
    }


def dtype(name: str) -> Any:
    """Return Triton's object of a dtype."""
    from triton.language import str_to_ty

    return str_to_ty(NAMES[name], None)


def dtype_name(value: object) -> str:
    """Return tilec's name of Triton's object of a dtype, or an empty string."""
    return next((name for name in NAMES if str(dtype(name)) == str(value)), "")


def compile_ptx(
    kernel: Any,
    *,
    types: Mapping[str, str],
    constants: Mapping[int, Any],
    divisible: Sequence[int],
    options: Mapping[str, Any],
    capability: int,
    ptx_isa: Version,
    lineinfo: bool,
    debug: bool,
) -> Compiled:
    """Run Triton's compiler up to PTX, without its cache and its ptxas.

    Args:
        kernel: Triton's object of the kernel.
        types: Triton's type by parameter; `constexpr` for those in `constants`.
        constants: values by index of the parameter.
        divisible: indices of parameters that are divisible by 16.
        options: Triton's compile options.
        capability: compute capability as a number (90).
        ptx_isa: PTX ISA to generate.
        lineinfo: keep source lines.
        debug: keep variables for a debugger.

    Raises:
        StageError: a pass failed.
        Exception: any error of Triton about the kernel; see `kernel_error`.
    """
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    with environment(), knobs.compilation.scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        knobs.compilation.disable_line_info = not (lineinfo or debug)
        knobs.compilation.dump_ir_extract_di_local_variables = debug
        target = GPUTarget("cuda", capability, 32)
        backend = make_backend(target)
        isa = ptx_isa[0] * 10 + ptx_isa[1]
        parsed = backend.parse_options({"enable_fp_fusion": True, **options, "ptx_version": isa})
        facts: Any = {(index,): [["tt.divisibility", 16]] for index in divisible}
        values = {(index,): value for index, value in constants.items()}
        source = ASTSource(kernel, dict(types), values, facts)
        return _run(source, backend, parsed, target)


def _run(source: Any, backend: Any, options: Any, target: Any) -> Compiled:
    from triton._C.libtriton import ir

    stages: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stage = "ttir"
    with _words() as words:
        try:
            module = source.make_ir(
                target,
                options,
                backend.get_codegen_implementation(options),
                backend.get_module_map(),
                context,
            )
            for stage in ("ttir", "ttgir", "llir", "ptx"):
                module = stages[stage](module, facts)
        except RuntimeError as exc:
            raise StageError(stage, f"{words()}{exc}") from exc
        log = words()
    return Compiled(
        ptx=module,
        symbol=facts["name"],
        threads=32 * facts.get("num_warps", options.num_warps),
        shared=facts["shared"],
        clusters=options.num_ctas,
        scratch=facts["global_scratch_size"],
        profile=facts["profile_scratch_size"],
        fusion=options.enable_fp_fusion,
        log=log,
        maps=tuple(map(_tensor_map, facts.get("tensordesc_meta") or ())),
    )


def _tensor_map(fields: Mapping[str, Any]) -> TensorMap:
    """Return the tensor map that Triton's launcher would encode for a descriptor argument."""
    if fields.get("fp4_padded") or fields.get("is_im2col"):
        raise StageError(
            "tensor descriptor",
            "descriptors of padded fp4 and of im2col are not passed by launches",
        )
    # Triton numbers types as the device does, which orders three of them unlike the driver.
    element = {8: 10, 9: 8, 10: 9}.get(int(fields["elem_type"]), int(fields["elem_type"]))
    return TensorMap(
        element=element, swizzle=int(fields["swizzle"]), box=tuple(map(int, fields["block_size"]))
    )


def descriptor_type(dtype: str, box: Sequence[int]) -> str:
    """Return Triton's type of a tensor descriptor made on the host."""
    return f"tensordesc<{NAMES[dtype]}[{','.join(map(str, box))}]>"


@contextlib.contextmanager
def _words() -> Iterator[Callable[[], str]]:
    """Capture the process's standard error, to which Triton's native code writes errors."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def read() -> str:
            sys.stderr.flush()
            file.seek(0)
            return file.read().decode("utf-8", "replace")

        try:
            yield read
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """One frame of an error of Triton.

    Attributes:
        message: its message.
        text: text of the function, which starts with `def`.
        line, column: location within that text.
    """

    message: str
    text: str
    line: int
    column: int


def complaints(exc: BaseException) -> tuple[Complaint, ...]:
    """Return the frames of an error with a location, the kernel's first."""
    from triton.compiler.errors import CompilationError

    rows = []
    seen: BaseException | None = exc
    while seen is not None:
        if (
            isinstance(seen, CompilationError)
            and isinstance(getattr(seen, "node", None), ast.AST)
            and seen.src is not None
        ):
            node: Any = seen.node
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            rows.append(
                Complaint(
                    message=str(seen.error_message or ""), text=seen.src, line=line, column=column
                )
            )
        elif rows:
            last = dataclasses.replace(rows[-1], message=rows[-1].message or str(seen))
            rows[-1] = last
        seen = seen.__cause__
    return tuple(rows)


def text_of(kernel: Any) -> str:
    """Return the text of a kernel's function, as in errors."""
    return str(kernel.src)
