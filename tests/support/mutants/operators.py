"""Mutation operators: those of mutmut, and five for faults that it does not plant.

mutmut swaps operators and keywords, changes numbers, strings and assigned values, and drops arguments. Ours negate a
condition, and drop a statement, a base class, an element of a display, and a value that is returned.
What has no effect at run time is left alone: annotations, docstrings, decorators, aliases of types.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import libcst as cst
from mutmut.mutation.mutators import mutation_operators, operator_string

Operator = Callable[[Any], Iterable[cst.CSTNode]]


def negated(node: cst.If) -> Iterator[cst.CSTNode]:
    """Yield `if not (...)`."""
    test = node.test.with_changes(lpar=[cst.LeftParen(), *node.test.lpar], rpar=[*node.test.rpar, cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(operator=cst.Not(), expression=test))


def without_statement(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """Yield `pass` for a call whose value is not used, a `raise` or a `del`."""
    (first, *others) = node.body
    is_call = isinstance(first, cst.Expr) and isinstance(first.value, cst.Call | cst.Await)
    if not others and (is_call or isinstance(first, cst.Raise | cst.Del)):
        yield node.with_changes(body=[cst.Pass()])


def without_base(node: cst.ClassDef) -> Iterator[cst.CSTNode]:
    """Yield the class without one of its base classes, for each."""
    for index in range(len(node.bases)):
        yield node.with_changes(bases=[*node.bases[:index], *node.bases[index + 1 :]])


def without_element(node: cst.Tuple | cst.List | cst.Set | cst.Dict) -> Iterator[cst.CSTNode]:
    """Yield a display of two or more elements without one of them, for each."""
    for index in range(len(node.elements) if len(node.elements) > 1 else 0):
        yield node.with_changes(elements=[*node.elements[:index], *node.elements[index + 1 :]])


def without_value(node: cst.Return) -> Iterator[cst.CSTNode]:
    """Yield `return None`."""
    if node.value is not None and not (isinstance(node.value, cst.Name) and node.value.value == "None"):
        yield node.with_changes(value=cst.Name("None"))


def one_string(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    """Yield mutmut's first change of a string; the others change only its case."""
    yield from list(operator_string(node))[:1]


OPERATORS: tuple[tuple[Any, Operator], ...] = (
    *((kind, operator) for kind, operator in mutation_operators if operator is not operator_string),
    (cst.BaseString, one_string),
    (cst.If, negated),
    (cst.SimpleStatementLine, without_statement),
    (cst.ClassDef, without_base),
    (cst.Tuple | cst.List | cst.Set | cst.Dict, without_element),
    (cst.Return, without_value),
)


def is_left_alone(node: cst.CSTNode, parent: cst.CSTNode | None) -> bool:
    """Return whether nothing in a node has an effect at run time."""
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom | cst.Decorator):
        return True
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString):
        return True  # a docstring
    return isinstance(parent, cst.Module) and _is_alias(node)


def _is_alias(node: cst.CSTNode) -> bool:
    """Return whether a statement names a type: `Batches = dict[Phase, list[Change]]`, `Effect = Send | Serve`."""
    if not isinstance(node, cst.SimpleStatementLine) or not isinstance(node.body[0], cst.Assign):
        return False
    value = node.body[0].value
    is_union = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.BitOr)
    return is_union or isinstance(value, cst.Subscript)


def changes_of(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield what each operator makes of a node, with the operator's name."""
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            for changed in operator(node):
                yield operator.__name__, changed
