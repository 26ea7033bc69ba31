"""A plan in double precision: what --check trains, so that rounding explains no difference.

Every narrower floating-point type that the source of the generated model computes in, and those of
the program, become float64. The types of stored tensors in model.py and in the weight files stay as
they are: a stage is converted after its weights are loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import torch

from .errors import RuntimeFault
from .program import RankProgram, TableSpec, TensorSpec

NARROW = ("float16", "bfloat16", "float32")
# Draws that depend on what else a process computes, so that no two splits agree.
UNREPEATABLE = {"F.dropout", "ops.dropout", "ops.bernoulli", "ops.multinomial"}


def widened(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else dtype


class _Widening(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "torch" and node.attr in NARROW:
            node.attr = "float64"
        return node


class _Draws(ast.NodeVisitor):
    """Calls of UNREPEATABLE in what the stages compute; the base class, Stage, has those of one process."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.name != "Stage":
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if (name := ast.unparse(node.func)) in UNREPEATABLE:
            self.found.add(name.partition(".")[2])
        self.generic_visit(node)


def doubled_source(text: str, path: str) -> ast.Module:
    """The source of model.py in double precision. It raises an error if the source has an operator
    whose result depends on how the model is split."""
    tree = ast.parse(text, path)
    draws = _Draws()
    draws.visit(tree)
    if draws.found:
        raise RuntimeFault(
            f"{path}: --check is not supported: the model draws random numbers by "
            f"{', '.join(sorted(draws.found))}, which depend on the split"
        )
    return ast.fix_missing_locations(_Widening().visit(tree))


def doubled_program(program: RankProgram) -> RankProgram:
    parts = [
        replace(
            part, receives=_doubled(part.receives), sends=_doubled(part.sends),
            tables=tuple(_doubled_table(table) for table in part.tables),
        )
        for part in program.parts
    ]  # fmt: skip
    return replace(program, parts=tuple(parts))


def _doubled(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(replace(spec, dtype=widened(spec.dtype)) for spec in specs)


def _doubled_table(table: TableSpec) -> TableSpec:
    return replace(table, dtype=widened(table.dtype))
