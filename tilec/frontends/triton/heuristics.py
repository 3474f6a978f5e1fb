"""Find the names and formulas in rules of `@triton.heuristics`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

Rule = Callable[[Mapping[str, object]], object]


class Read(NamedTuple):
    """A name that a rule reads, and the rule's formula, empty if it is no single expression."""

    name: str
    formula: str


class Arguments(dict[str, object]):
    """Arguments of a launch, which has each parameter, however a rule asks for it."""

    def __contains__(self, name: object) -> bool:
        """Whether a launch has the parameter: each does."""
        return True

    def get(self, name: str, default: object = None) -> object:
        """Read a parameter; the default is for no launch."""
        del default
        return self[name]


class Known(Arguments):
    """Values of constants for a rule of `@triton.heuristics`.

    Attributes:
        constants: names of all `tl.constexpr` parameters.
        read: name of an unknown parameter that the rule reads, or an empty string. A launch
            argument wins over a constant without a value; the rule reads 1 for such a constant.
        known: names of the values that the rule reads.
    """

    def __init__(self, values: Mapping[str, object], constants: Collection[str]) -> None:
        """Start with the known values."""
        super().__init__(values)
        self.constants = constants
        self.read = ""
        self.known: set[str] = set()

    def __getitem__(self, name: str) -> object:
        """Record the name, and return the value."""
        if name in self.keys():
            self.known.add(name)
        return super().__getitem__(name)

    def __missing__(self, name: str) -> object:
        """Record the name of a missing value."""
        if name in self.constants:
            self.read = self.read or name
            return 1
        self.read = name
        raise KeyError(name)


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


class _Names(Arguments):
    """Arguments of a launch; the value of each is a formula of its name."""

    def __missing__(self, name: str) -> object:
        return Formula(name)


def formula_of(rule: Rule) -> str:
    """Return the formula of a rule, or an empty string if it is no single expression."""
    try:
        result = rule(_Names())
    except (Exception, SystemExit):  # noqa: BLE001 - a rule may do anything with a value
        return ""
    return result.text if isinstance(result, Formula) else ""
