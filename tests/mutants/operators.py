"""How a file is mutated: the operators of cosmic-ray that we use, and a few of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from cosmic_ray.operators.exception_replacer import ExceptionReplacer
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Name
from parso.python.tree import Operator as Sign
from parso.tree import NodeOrLeaf

Span = tuple[tuple[int, int], tuple[int, int]]

# cosmic-ray can replace every operator by every other. Most of that only flatters the share: a bit operation on floats
# raises at the first call. Each operator is replaced by its opposite, and each comparison also by its neighbour.
# Decorators stay: without one, `jit` apart, nothing works at all, and `jit` does nothing here.
_BINARY = (
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul"),
    *("RShift_LShift", "LShift_RShift", "BitAnd_BitOr"),
)
_COMPARISONS = (
    *("Lt_LtE", "Lt_Gt", "LtE_Lt", "LtE_GtE", "Gt_GtE", "Gt_Lt", "GtE_Gt", "GtE_LtE"),
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
)
_CHOSEN = (
    *(f"ReplaceBinaryOperator_{pair}" for pair in _BINARY),
    *(f"ReplaceComparisonOperator_{pair}" for pair in _COMPARISONS),
    *("ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not", "AddNot"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "NumberReplacer"),
)


class _LeafReplacer(Operator):  # type: ignore[misc]
    """Replaces a word or sign by another."""

    pairs: ClassVar[dict[str, str]]
    kind: type

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        if type(node) is self.kind and node.value in self.pairs:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> NodeOrLeaf:
        node.value = self.pairs[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class ReplaceAssignment(_LeafReplacer):
    """`total += x` becomes `total -= x`; cosmic-ray has no operator for these."""

    kind = Sign
    pairs: ClassVar = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "//=": "*=", "|=": "&=", "&=": "|="}


class ReplaceExtreme(_LeafReplacer):
    """`max(a, b)` becomes `min(a, b)`."""

    kind = Name
    pairs: ClassVar = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}


class ReplaceException(ExceptionReplacer):  # type: ignore[misc]
    """Catches something else; cosmic-ray's stumbles over names with a dot."""

    @staticmethod
    def _name_nodes(node: Any) -> list[NodeOrLeaf]:
        caught = node.children[1]
        if caught.type == "atom":  # in parentheses
            caught = caught.children[1]
        names = caught.children[::2] if caught.type == "testlist_comp" else [caught]
        return [name.get_last_leaf() for name in names]


class ReplaceSQL(Operator):  # type: ignore[misc]
    """Changes a sign or a word of a statement that stands in a string."""

    pairs = (
        (r" > ", " >= "),
        (r" >= ", " > "),
        (r" < ", " <= "),
        (r" <= ", " < "),
        (r" <> ", " = "),
        (r" \+ ", " - "),
        (r" - ", " + "),
        (r" DESC\b", ""),
        (r" AND ", " OR "),
        (r" OR (?!IGNORE|REPLACE)", " AND "),
        (r" IS NULL\b", " IS NOT NULL"),
        (r"\bmax\(", "min("),
        (r" OR IGNORE ", " "),
        (r" OR REPLACE ", " OR IGNORE "),
        (r" ORDER BY (\w+)(?! DESC|\w)", r" ORDER BY \1 DESC"),
        (r"\bcoalesce\((\w+), (\S+?)\)", r"coalesce(\2, \1)"),
    )

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        for _ in self._changed(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> NodeOrLeaf:
        node.value = list(self._changed(node))[index]
        return node

    def _changed(self, node: Any) -> Iterator[str]:
        docstring = node.parent is not None and node.parent.type == "simple_stmt"
        if node.type in ("string", "fstring_string") and not docstring:
            for pattern, replacement in self.pairs:
                for found in re.finditer(pattern, node.value):
                    yield node.value[: found.start()] + found.expand(replacement) + node.value[found.end() :]

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


def operators(sql: bool) -> dict[str, Operator]:
    """All operators by name, with the one for SQL where the file has statements."""
    own = [ReplaceAssignment(), ReplaceExtreme(), ReplaceException(), *([ReplaceSQL()] if sql else [])]
    return {name: get_operator(f"core/{name}")() for name in _CHOSEN} | {type(each).__name__: each for each in own}
