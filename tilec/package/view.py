"""Views of a bundle's index for the package's templates: one per kernel, one of the whole."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Iterable, Iterator, Sequence

from tilec.manifest.values import kernel_name_problem
from tilec.package.doc import launcher_doc, op_doc, summary
from tilec.package.text import bracketed, literal, parameter_names, plain, unique
from tilec_runtime.errors import UsageError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, BundleInfo, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelView:
    """One kernel's method, and its function that gives ops. All but `name` and `op` are Python
    text.

    Attributes:
        name: the kernel's. summary: first paragraph of its documentation. op: the class of its ops
            in the stub.
        values: what the launcher is given, in the module.
        params, axes: parameters of the method and of the function in the module, without types.
        opened: whether each launch takes a configuration. count: of the parameters.
        lists: whether any parameter is a list of arrays.
        base: what the class of ops extends. method, op_method: lines in the stub, of the method
            that launches and of the one that gives ops. allocating: those of the method that
            returns its outputs, none where the kernel is no operator.
        variant, options: lines of the methods of an op. doc, op_doc: lines of docstrings.
    """

    name: str
    summary: str
    op: str
    values: str
    params: str
    axes: str
    opened: bool
    count: int
    lists: bool
    base: str
    method: list[str]
    allocating: list[str]
    op_method: list[str]
    variant: list[str]
    options: list[str]
    doc: list[str]
    op_doc: list[str]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PackageView:
    """The whole package; all texts are Python text.

    Attributes:
        title: first line of the module's docstring. subject: name and version. builder: what made
            it.
        bundle, index: the bundle's file name, and the digest of its index.
        variables: type variables of tensors. kernels: in the manifest's order.
    """

    title: str
    subject: str
    builder: str
    bundle: str
    index: str
    variables: tuple[str, ...]
    kernels: tuple[KernelView, ...]


def package_view(info: BundleInfo, bundle_name: str, index: str) -> PackageView:
    """Return the view of a bundle's package; arguments as for `render_package`.

    Raises:
        UsageError: a kernel's or a parameter's name cannot be one in Python.
    """
    package = info.package
    subject = plain(f"{package.name} {package.version}")
    most = max((len(_tensors(kernel)) for kernel in info.kernels), default=0)
    ops: list[str] = []
    for kernel in info.kernels:
        ops.append(
            unique(
                f"_{''.join(word[:1].upper() + word[1:] for word in kernel.name.split('_'))}Launch",
                ops,
            )
        )
    return PackageView(
        title=f"{subject}: {plain(package.description)}".removesuffix(".") + "."
        if package.description
        else f"{subject}.",
        subject=subject,
        builder=plain(info.builder or "tilec"),
        bundle=literal(bundle_name),
        index=literal(index),
        variables=tuple(f"_T{number}" for number in range(1, most + 1)),
        kernels=tuple(
            _kernel_view(kernel, op) for kernel, op in zip(info.kernels, ops, strict=True)
        ),
    )


def _tensors(kernel: KernelInfo) -> list[str]:
    """Tensors whose types an op gives back."""
    return [
        param.name
        for param in kernel.call_params
        if param.kind is ParamKind.TENSOR and not param.optional
    ]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Argument:
    """A parameter of a launcher; all texts are Python text.

    Attributes:
        name: its name in Python.
        type: what a launch takes.
        default: its default, empty for none.
        variable: type variable of the tensor in an op, empty for none.
        listed: whether it is a list of arrays.
    """

    name: str
    type: str
    default: str
    variable: str
    listed: bool

    @property
    def plain(self) -> str:
        """The parameter without a type."""
        return f"{self.name}={self.default}" if self.default else self.name

    @property
    def direct(self) -> str:
        """The parameter of the method that launches."""
        return f"{self.name}: {self.type}{self._assigned}"

    @property
    def lazy(self) -> str:
        """The parameter of the function that gives an op: the value, or an op that gives it."""
        taken = f"OrOp[{self.variable or self.type}]"
        return f"{self.name}: {f'Sequence[{taken}]' if self.listed else taken}{self._assigned}"

    @property
    def result(self) -> str:
        """What an op gives for it."""
        return f"tuple[{self.variable}, ...]" if self.listed else self.variable or self.type

    @property
    def _assigned(self) -> str:
        return f" = {self.default}" if self.default else ""


def _arguments(kernel: KernelInfo, names: Sequence[str]) -> list[_Argument]:
    """Return a launcher's parameters, given their names in Python."""
    variables = {param: f"_T{number}" for number, param in enumerate(_tensors(kernel), 1)}
    lists = {row.name for row in kernel.lists}
    return [
        _Argument(
            name=name,
            type=f"Sequence[{param_type(param)}]" if param.name in lists else param_type(param),
            default=default,
            variable=variables.get(param.name, ""),
            listed=param.name in lists,
        )
        for name, param, default in zip(names, kernel.call_params, defaults(kernel), strict=True)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Keyword:
    """A keyword of every launch: its name, its type, and whether it may be left out."""

    name: str
    type: str
    optional: bool

    @property
    def plain(self) -> str:
        """The keyword without a type."""
        return f"{self.name}=None" if self.optional else self.name

    @property
    def typed(self) -> str:
        """The keyword in a signature."""
        return f"{self.name}: {self.type}{' | None = None' if self.optional else ''}"


def _launch_keywords(kernel: KernelInfo, axes: Sequence[str]) -> Iterator[_Keyword]:
    """Yield the keywords that choose configuration and variant; `axes` are their Python names."""
    if kernel.launch.open:
        yield _Keyword("config", "LaunchConfig", bool(kernel.launch.preset))
    built = dict(kernel.axes)
    for name, axis in zip(axes, kernel.choices, strict=True):
        yield _Keyword(name, choice_type(built[axis]), is_open(kernel, axis))


def _kernel_view(kernel: KernelInfo, op: str) -> KernelView:
    name = kernel.name
    if not name.isidentifier() or not name.isascii() or kernel_name_problem(name):
        raise UsageError(
            f"kernel {name!r} cannot be a function of the generated package",
            fix="rename the kernel in tilec.toml",
        )
    params, axes = launcher_names(kernel)
    arguments = _arguments(kernel, params)
    variables = [argument.variable for argument in arguments if argument.variable]
    result = f"{op}[{', '.join(variables)}]" if variables else op
    keywords_of_launch = [*_launch_keywords(kernel, axes)]
    chosen = [keyword.typed for keyword in keywords_of_launch]
    stream = ["*", "stream: StreamLike | None = None", *chosen]
    direct = [argument.direct for argument in arguments]
    lazy = [argument.lazy for argument in arguments]
    results = ", ".join(argument.result for argument in arguments)
    return KernelView(
        name=name,
        summary=summary(kernel),
        op=op,
        values=_values(
            params, axes, all_open=all(is_open(kernel, axis) for axis in kernel.choices)
        ),
        params=", ".join(argument.plain for argument in arguments),
        opened=bool(kernel.launch.open),
        count=len(arguments),
        lists=bool(kernel.lists),
        axes="".join(f", {keyword.plain}" for keyword in keywords_of_launch),
        base=f"LazyLaunch[tuple[{results or '()'}]]",
        method=bracketed(f"def {name}", ["self", *direct, *stream], " -> None:"),
        allocating=_allocating(kernel, direct, stream),
        op_method=bracketed(
            f"def {name}", ["self", *lazy, *(["*", *chosen] if chosen else [])], f" -> {result}:"
        ),
        variant=bracketed("def variant", keywords(kernel.axes, " | None"), f" -> {result}:"),
        options=bracketed("def options", keywords(_hints(kernel)), f" -> {result}:"),
        doc=launcher_doc(kernel, params, axes),
        op_doc=op_doc(kernel, params, axes),
    )


def launcher_names(kernel: KernelInfo) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the Python names of a launcher's parameters, and of the axes that its caller chooses.

    Raises:
        UsageError: a name is no identifier.
    """
    own = [*(param.name for param in kernel.call_params), *kernel.choices]
    names = parameter_names(own, {"self", "stream"})
    count = len(kernel.call_params)
    return names[:count], names[count:]


def _allocating(kernel: KernelInfo, direct: list[str], stream: list[str]) -> list[str]:
    """The lines of a method that returns the outputs: of the library of the first input."""
    if not kernel.allocated:
        return []
    names = {param.name for param in (*kernel.allocated, *kernel.given)}
    texts = dict(zip((param.name for param in kernel.call_params), direct, strict=True))
    template = next(param.name for param in kernel.given if param.kind is ParamKind.TENSOR)
    texts[template] = texts[template].replace(": TensorLike", ": _T1", 1)
    result = ", ".join(["_T1"] * len(kernel.allocated))
    return bracketed(
        f"def {kernel.name}",
        [
            "self",
            *(texts[param.name] for param in kernel.given),
            "*",
            *(text for name, text in texts.items() if name not in names),
            *stream[1:],
        ],
        f" -> {f'tuple[{result}]' if len(kernel.allocated) > 1 else result}:",
    )


def _values(params: tuple[str, ...], axes: tuple[str, ...], *, all_open: bool) -> str:
    """The arguments of a launch, and its axes where the caller chooses any: if all may be open, one
    test tells that all are.
    """
    text = f"({', '.join(params)}{',' if len(params) == 1 else ''})"
    if not axes:
        return text
    chosen = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    return (
        f"{text}, () if {' and '.join(f'{axis} is None' for axis in axes)} else {chosen}"
        if all_open
        else f"{text}, {chosen}"
    )


def _hints(kernel: KernelInfo) -> list[tuple[str, tuple[AxisValue, ...]]]:
    """What ops can restrict variants by: the hints that they were built with, and the divisors that
    they assume.
    """
    hints: dict[str, set[int]] = {}
    for variant in kernel.variants:
        for _, given in variant.hints:
            for name, value in given:
                hints.setdefault(name, set()).add(value)
    divisors = {variant.divisibility for variant in kernel.variants}
    if len(divisors) > 1:
        hints["max_divisibility"] = divisors
    return [(name, tuple(sorted(hints[name]))) for name in sorted(hints)]


def is_open(kernel: KernelInfo, axis: str) -> bool:
    """Whether a caller may leave an axis open: there is a default, or a tuning table, rules, the
    device or the tiles of a partition may say.
    """
    return (
        kernel.dispatched
        or axis in dict(kernel.default)
        or kernel.by_device(axis)
        or bool(kernel.tiled_by(axis))
    )


def defaults(kernel: KernelInfo) -> tuple[str, ...]:
    """Return each parameter's default in Python, an empty text where the caller has to give it.

    A parameter without a default cannot follow one that has one: the earlier defaults then hold for
    the launcher only.
    """
    last = max(
        (i for i, p in enumerate(kernel.call_params) if p.default is None and not p.optional),
        default=-1,
    )
    return tuple(
        literal(param.default) if index > last else ""
        for index, param in enumerate(kernel.call_params)
    )


def keywords(values: Iterable[tuple[str, tuple[AxisValue, ...]]], none: str = "") -> list[str]:
    """Return a method's keywords that may all be left out, each with the values it takes; Python's
    keywords are not among them.
    """
    items = [
        f"{name}: {choice_type(each)}{none} = ..."
        for name, each in values
        if not keyword.iskeyword(name) and name != "self"
    ]
    return ["self", "*", *items] if items else ["self"]


def param_type(param: Param) -> str:
    """Return what a launch takes for a parameter."""
    match param.kind:
        case ParamKind.TENSOR:
            return "TensorLike | None" if param.optional else "TensorLike"
        case ParamKind.PTR:
            return "int"
        case ParamKind.STRUCT:
            return "StructLike"
        case ParamKind.SCALAR:
            kind = DTYPES[param.dtype].kind if param.dtype in DTYPES else "float"
            return {"bool": "bool", "int": "int", "uint": "int", "float": "float"}[kind]


def choice_type(values: tuple[AxisValue, ...]) -> str:
    """Return what a caller may give for an axis."""
    if any(isinstance(value, float) for value in values):  # Literal takes no floats
        return "float"
    return f"Literal[{', '.join(map(literal, values))}]"
