"""How a file is mutated: the operators of cosmic-ray that we use, and three of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Name
from parso.python.tree import Operator as Sign
from parso.tree import NodeOrLeaf

Span = tuple[tuple[int, int], tuple[int, int]]

# cosmic-ray can replace every operator by every other. Most of that only flatters the share: a bit operation on floats
# raises at the first call. Each operator is replaced by its opposite, and each comparison also by its neighbour.
# Decorators stay: without one, `jit` apart, nothing works at all, and `jit` does nothing here.
_CHOSEN = """
    ReplaceBinaryOperator_Add_Sub ReplaceBinaryOperator_Sub_Add ReplaceBinaryOperator_Mul_Div
    ReplaceBinaryOperator_Div_Mul ReplaceBinaryOperator_FloorDiv_Mul ReplaceBinaryOperator_Mod_FloorDiv
    ReplaceBinaryOperator_Pow_Mul ReplaceBinaryOperator_RShift_LShift ReplaceBinaryOperator_LShift_RShift
    ReplaceBinaryOperator_BitAnd_BitOr ReplaceUnaryOperator_USub_UAdd ReplaceUnaryOperator_Delete_Not
    ReplaceComparisonOperator_Lt_LtE ReplaceComparisonOperator_Lt_Gt ReplaceComparisonOperator_LtE_Lt
    ReplaceComparisonOperator_LtE_GtE ReplaceComparisonOperator_Gt_GtE ReplaceComparisonOperator_Gt_Lt
    ReplaceComparisonOperator_GtE_Gt ReplaceComparisonOperator_GtE_LtE ReplaceComparisonOperator_Eq_NotEq
    ReplaceComparisonOperator_NotEq_Eq ReplaceComparisonOperator_Is_IsNot ReplaceComparisonOperator_IsNot_Is
    AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd ReplaceBreakWithContinue
    ReplaceContinueWithBreak ExceptionReplacer NumberReplacer ZeroIterationForLoop
""".split()


class _LeafReplacer(Operator):  # type: ignore[misc]
    """Replaces a word or sign by another."""

    pairs: dict[str, str]
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
    pairs = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "//=": "*=", "|=": "&=", "&=": "|="}


class ReplaceExtreme(_LeafReplacer):
    """`max(a, b)` becomes `min(a, b)`."""

    kind = Name
    pairs = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}


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
        (r" ORDER BY (\w+)", r" ORDER BY -\1"),
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
    own = [ReplaceAssignment(), ReplaceExtreme(), *([ReplaceSQL()] if sql else [])]
    return {name: get_operator(f"core/{name}")() for name in _CHOSEN} | {type(each).__name__: each for each in own}
