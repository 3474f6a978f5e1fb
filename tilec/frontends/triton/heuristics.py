"""Apply rules of `@triton.heuristics`: values, names that they read, and formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

Rule = Callable[[Mapping[str, object]], object]


class Computed(NamedTuple):
    """A constant that a rule computes.

    Attributes:
        reads: names of the parameters that it is computed from; a constant that another rule
            computes is replaced by what that rule reads.
        formula: the rule's formula, empty if it is no single expression.
    """

    reads: tuple[str, ...]
    formula: str


class Arguments(dict[str, object]):
    """Arguments of a launch for a rule: known values, and for other names their formulas.

    Attributes:
        read: the names that the rule has read, in order.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        """Start with the known values."""
        super().__init__(values)
        self.read: dict[str, None] = {}

    def __contains__(self, name: object) -> bool:
        """Whether a launch has the parameter: each does."""
        return True

    def get(self, name: str, default: object = None) -> object:
        """Read a parameter; the default is for no launch."""
        del default
        return self[name]

    def __getitem__(self, name: str) -> object:
        """Record the name, and return the value."""
        self.read[name] = None
        return super().__getitem__(name)

    def __missing__(self, name: str) -> object:
        """Return the formula of an unknown value."""
        return Formula(name)

    def result(self, rule: Rule) -> object:
        """Return the result of a rule, or a formula without text if it fails."""
        try:
            return rule(self)
        except (Exception, SystemExit):  # noqa: BLE001 - a rule may do anything with a value
            return Formula("")


def apply(
    rules: Iterable[tuple[str, Rule]], config: dict[str, object], defaults: Mapping[str, object]
) -> dict[str, Computed]:
    """Add constants that follow from a configuration and defaults to it; return all computed ones."""
    computed: dict[str, Computed] = {}
    for name, rule in rules:
        arguments = Arguments({**defaults, **config})
        result = arguments.result(rule)
        reads = [
            origin
            for read in arguments.read
            for origin in (computed[read].reads if read in computed else (read,))
        ]
        computed[name] = Computed(tuple(dict.fromkeys(reads)), formula_of(rule))
        if not isinstance(result, Formula) and arguments.read.keys() <= arguments.keys():
            config[name] = result
    return computed


def formula_of(rule: Rule) -> str:
    """Return the formula of a rule, or an empty string if it is no single expression."""
    result = Arguments({}).result(rule)
    return result.text if isinstance(result, Formula) else ""


class Formula:
    """The expression that a rule computes, in the manifest's language.

    It records the operators of `_OPERATORS` and `_COMPARISONS`. A rule that branches (`and`, `if`,
    `is None`) has no formula.

    Attributes:
        text: the expression.
        kind: `name`, `number` or `condition`.
    """

    def __init__(self, text: str, kind: str = "name") -> None:
        """Store text and kind."""
        self.text = text
        self.kind = kind

    def __bool__(self) -> bool:
        """Refuse: the value depends on a launch."""
        raise TypeError(f"{self.text} is not known here")


_LONGEST = 200  # characters of a formula, which a loop could double without end
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _joined(left: object, operator: str, right: object, kind: str) -> Formula:
    texts = []
    for operand in (left, right):
        if isinstance(operand, Formula):
            alone = operand.kind == "name" or (operand.kind, kind) == ("number", "condition")
            texts.append(operand.text if alone else f"({operand.text})")
        elif type(operand) is int and operand >= 0:
            texts.append(str(operand))
        else:
            raise TypeError(f"{operand!r} has no place in a formula")
    text = f"{texts[0]} {operator} {texts[1]}"
    if len(text) > _LONGEST:
        raise TypeError("the formula is too long to show")
    return Formula(text, kind)


def _operate(name: str, operator: str, kind: str) -> None:
    def operate(self: Formula, other: object) -> Formula:
        return _joined(self, operator, other, kind)

    def reflected(self: Formula, other: object) -> Formula:
        return _joined(other, operator, self, kind)

    setattr(Formula, f"__{name}__", operate)
    setattr(Formula, f"__r{name}__", reflected)  # Python swaps comparisons itself


for _name, _operator in _OPERATORS.items():
    _operate(_name, _operator, "number")
for _name, _operator in _COMPARISONS.items():
    _operate(_name, _operator, "condition")
