"""The mutants of a file: where they are, and what they read like."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from parso.tree import NodeOrLeaf

from .operators import operators


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation of a file: the n-th place where an operator applies."""

    file: str
    operator: str
    occurrence: int
    line: int

    @property
    def name(self) -> str:
        return f"{self.operator} {self.occurrence}"


def _is_marker(node: NodeOrLeaf) -> bool:
    """Whether this is a star that multiplies nothing, as before arguments: its mutants are no Python."""
    return node.type == "operator" and node.value in ("*", "**") and node.parent.type not in ("term", "power")


class Source:
    """A file that is mutated."""

    def __init__(self, path: Path, file: str, *, sql: bool) -> None:
        self.file = file
        self.text = path.read_text(encoding="utf-8")
        self._operators = operators(sql)

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All mutants, in the order of their lines."""
        nodes = list(ast_nodes(get_ast(self.text)))
        found = []
        for name, operator in self._operators.items():
            places = [(node, start[0]) for node in nodes for start, _ in operator.mutation_positions(node)]
            found += [
                Mutant(self.file, name, number, line)
                for number, (node, line) in enumerate(places)
                if not _is_marker(node)
            ]
        return sorted(found, key=lambda mutant: (mutant.line, mutant.name))

    def mutate(self, mutant: Mutant) -> str:
        """The file's text with one mutation."""
        text: str | None = mutate_code(self.text, self._operators[mutant.operator], mutant.occurrence)
        assert text is not None
        return text

    def lines_of(self, mutant: Mutant) -> range:
        """Lines of the statement that is mutated; only the header of one that holds others."""
        inner = min(self._statements, key=lambda lines: (mutant.line not in lines, len(lines)))
        return inner if mutant.line in inner else range(mutant.line, mutant.line + 1)

    @cached_property
    def _statements(self) -> list[range]:
        found = []
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.stmt):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
                found.append(range(node.lineno, max(last, node.lineno) + 1))
        return found

    def function_of(self, line: int) -> str:
        """Name of the function or class around a line, with those around it."""
        around = [
            node
            for node in ast.walk(ast.parse(self.text))
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        return ".".join(node.name for node in around)

    def read(self, mutant: Mutant) -> dict[str, str]:
        """How the list of survivors names a mutant: by what stands there, so that other lines may move."""
        before, after = self.text.splitlines(), self.mutate(mutant).splitlines()
        pairs = list(zip(before, after, strict=True))
        changed = [(old.strip(), new.strip()) for old, new in pairs if old != new]
        was, became = changed[0] if changed else (before[mutant.line - 1].strip(), "the same")
        return {"file": self.file, "function": self.function_of(mutant.line), "was": was, "became": became}
