"""Views of a bundle's index for the package's templates: kernels and package."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Iterable, Iterator, Sequence

from tilec.package.doc import launcher_doc, op_doc, summary
from tilec.package.text import bracketed, literal, parameter_names, plain, unique
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, BundleInfo, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelView:
    """One kernel's method and its function that returns ops; texts are Python text.

    Attributes:
        name: name of the kernel.
        summary: first paragraph of the kernel's documentation.
        op: class of the kernel's ops in the stub.
        values: arguments of the launcher, in the module.
        params: parameters in the module, without types.
        axes: keywords of configuration and axes in the module, without types.
        opened: whether each launch takes a configuration.
        count: number of parameters.
        lists: whether any parameter is a list of arrays.
        base: base class of the class of ops.
        method: lines in the stub of the method that launches.
        allocating: lines in the stub of the method that returns its outputs; none if the kernel is
            not an operator.
        op_method: lines in the stub of the method that returns ops.
        variant: lines of an op's method `variant`.
        options: lines of an op's method `options`.
        doc: lines of the docstring of the method that launches.
        op_doc: lines of the docstring of the function that returns ops.
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
    """The whole package; texts are Python text.

    Attributes:
        title: first line of the module's docstring.
        subject: name and version of the package.
        builder: program that built the package.
        bundle: file name of the bundle.
        index: digest of the bundle's index.
        variables: type variables of tensors.
        kernels: views of the kernels, in the manifest's order.
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
        UsageError: the name of a parameter cannot be a name in Python.
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
    """Return the names of the tensors whose types an op keeps."""
    return [
        param.name
        for param in kernel.call_params
        if param.kind is ParamKind.TENSOR and not param.optional
    ]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Argument:
    """A parameter of a launcher; texts are Python text.

    Attributes:
        name: name in Python.
        type: type of the argument of a launch.
        default: default value, or an empty string for none.
        variable: type variable of the tensor in an op, or an empty string for none.
        listed: whether the parameter is a list of arrays.
    """

    name: str
    type: str
    default: str
    variable: str
    listed: bool

    @property
    def plain(self) -> str:
        """Parameter without a type."""
        return f"{self.name}={self.default}" if self.default else self.name

    @property
    def direct(self) -> str:
        """Parameter of the method that launches."""
        return f"{self.name}: {self.type}{self._assigned}"

    @property
    def lazy(self) -> str:
        """Parameter of the function that returns an op.

        The argument is a value, or an op whose result is one.
        """
        taken = f"OrOp[{self.variable or self.type}]"
        return f"{self.name}: {f'Sequence[{taken}]' if self.listed else taken}{self._assigned}"

    @property
    def result(self) -> str:
        """Type of the parameter in the result of an op."""
        return f"tuple[{self.variable}, ...]" if self.listed else self.variable or self.type

    @property
    def _assigned(self) -> str:
        return f" = {self.default}" if self.default else ""


def _arguments(kernel: KernelInfo, names: Sequence[str]) -> list[_Argument]:
    """Return a launcher's parameters; `names` are their names in Python."""
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
    """A keyword of every launch: its name, its type, and whether it may be omitted."""

    name: str
    type: str
    optional: bool

    @property
    def plain(self) -> str:
        """Keyword without a type."""
        return f"{self.name}=None" if self.optional else self.name

    @property
    def typed(self) -> str:
        """Keyword in a signature."""
        return f"{self.name}: {self.type}{' | None = None' if self.optional else ''}"


def _launch_keywords(kernel: KernelInfo, axes: Sequence[str]) -> Iterator[_Keyword]:
    """Yield the keywords of configuration and variant.

    `axes` are the Python names of the axes.
    """
    if kernel.launch.open:
        yield _Keyword("config", "LaunchConfig", bool(kernel.launch.preset))
    built = dict(kernel.axes)
    for name, axis in zip(axes, kernel.choices, strict=True):
        yield _Keyword(name, choice_type(built[axis]), is_open(kernel, axis))


def _kernel_view(kernel: KernelInfo, op: str) -> KernelView:
    name = kernel.name
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
    """Return the Python names of a launcher's parameters and of its chosen axes.

    Raises:
        UsageError: a name is not an identifier.
    """
    own = [*(param.name for param in kernel.call_params), *kernel.choices]
    names = parameter_names(own, {"self", "stream"})
    count = len(kernel.call_params)
    return names[:count], names[count:]


def _allocating(kernel: KernelInfo, direct: list[str], stream: list[str]) -> list[str]:
    """Return the lines of a method that returns its outputs.

    The outputs are of the same library as the first input.
    """
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
    """Return the arguments of a launch, and its axes if the caller chooses any.

    If all axes may be open, one test finds that all are.
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
    """Return the restrictions that ops can place on variants, each with its values.

    The restrictions are the hints of the variants' builds, and the divisors that variants assume.
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
    """Return whether a caller may leave an axis open.

    The value then comes from a default, a tuning table, rules, the device, or the tiles of a
    partition.
    """
    return axis not in kernel.undecided or kernel.by_device(axis) or bool(kernel.tiled_by(axis))


def defaults(kernel: KernelInfo) -> tuple[str, ...]:
    """Return each parameter's default in Python, or an empty string if required.

    In Python, a parameter without a default cannot follow one with a default. The earlier defaults
    then apply in the launcher only.
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
    """Return parameters of a method with optional keywords, each with its values.

    Names that are keywords of Python are omitted.
    """
    items = [
        f"{name}: {choice_type(each)}{none} = ..."
        for name, each in values
        if not keyword.iskeyword(name) and name != "self"
    ]
    return ["self", "*", *items] if items else ["self"]


def param_type(param: Param) -> str:
    """Return the type of a parameter in a launch."""
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
    """Return the type of an axis in a launch."""
    if any(isinstance(value, float) for value in values):  # Literal accepts no floats
        return "float"
    return f"Literal[{', '.join(map(literal, values))}]"
