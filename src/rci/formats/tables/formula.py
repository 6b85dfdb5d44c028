"""A reward as an expression over columns, such as `v * 0.1 - abs(turn)`: arithmetic, and nothing else.

Numbers, columns, + - * / **, comparisons (1 where they hold, else 0) and a few functions. A column whose name is not an
word is written between backticks: `pose x`. previous(x) and next(x) are x one row earlier and later in the same run; at
its first and its last row they are x itself, so that differences to them are 0 there.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array

LONGEST = 1000  # characters
DEEPEST = 50
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {  # how many arguments at least, and what it does
    "abs": (1, np.abs),
    "sqrt": (1, np.sqrt),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "hypot": (2, np.hypot),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "previous": (1, lambda x: np.concatenate([x[:1], x[:-1]])),
    "next": (1, lambda x: np.concatenate([x[1:], x[-1:]])),
}
AROUND = ("previous", "next")
BINARY: dict[type, Callable[..., Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power,
}  # fmt: skip
COMPARISONS: dict[type, Callable[..., Any]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip


class Formula(NamedTuple):
    """An expression that was checked, and the columns in it."""

    text: str
    columns: tuple[str, ...]
    looks_around: bool  # whether it needs the rows before and after

    def evaluate(self, inputs: Mapping[str, Array], rows: int) -> Array:
        """Its value in each row, [rows], from those of its columns; with `looks_around` these are one whole run."""
        tree, column_of = _parsed(self.text, "the reward")
        with np.errstate(all="ignore"):
            return np.broadcast_to(_value(tree, column_of, inputs, rows), (rows,)).astype(np.float64)


def parse_formula(text: str, columns: Sequence[str], where: str) -> Formula:
    """An expression over these columns; what it must not hold is refused, with its position."""
    tree, column_of = _parsed(text.strip(), where)
    check = _Check(text.strip(), column_of, columns, where, {}, set())
    check.node(tree)
    return Formula(text.strip(), tuple(check.found), bool(check.functions & set(AROUND)))


def _parsed(text: str, where: str) -> tuple[ast.expr, dict[str, str]]:
    """The tree, and which column each stand-in for a name between backticks means."""
    if len(text) > LONGEST:
        raise RciError(f"{where[:80]} is longer than {LONGEST} characters.")
    column_of: dict[str, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        # of the same length, so that positions stay what they are
        name = f"_{len(column_of):0{len(found[0]) - 1}d}"
        column_of[name] = found[1]
        return name

    plain = re.sub(r"`([^`]+)`", stand_in, text)
    if "`" in plain:
        raise RciError(f"{where}: a backtick at position {plain.index('`') + 1} is not closed.")
    if re.search(r"(?<!\w)_\d", re.sub(r"`[^`]+`", "", text)):
        raise RciError(f"{where}: write a column that begins with _ between backticks.")
    try:
        return ast.parse(plain, mode="eval").body, column_of
    except SyntaxError as error:
        raise RciError(
            f"{where} is neither a column nor an expression: it cannot be read at position {error.offset or 1}."
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise RciError(f"{where} cannot be read: {error or type(error).__name__}.") from None


class _Check(NamedTuple):
    """What an expression may hold; collects its columns and functions."""

    text: str
    column_of: Mapping[str, str]
    columns: Sequence[str]
    where: str
    found: dict[str, None]
    functions: set[str]

    def node(self, node: ast.expr, depth: int = 0) -> None:
        """Refuse anything but arithmetic."""
        at = f"position {len(self.text.encode()[: node.col_offset].decode(errors='ignore')) + 1}"
        if depth > DEEPEST:
            raise RciError(f"{self.where} is nested more than {DEEPEST} deep at {at}.")
        name = _column(node, self.column_of)
        if name is not None:
            if name not in self.columns:
                raise unknown_name(f"column in {self.where}, {at}:", name, self.columns)
            self.found[name] = None
        elif isinstance(node, ast.Constant):
            if not _is_number(node.value):
                raise RciError(
                    f"{self.where}: {node.value!r} at {at} is not a number; a column stands between backticks."
                )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            self._call(node.func.id, len(node.args), at)
        elif not (
            (isinstance(node, ast.BinOp) and type(node.op) in BINARY)
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd))
            or (isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS)
        ):
            raise RciError(
                f"{self.where}: what stands at {at} is not arithmetic; numbers, columns, + - * / **, comparisons and "
                f"{', '.join(FUNCTIONS)} are."
            )
        if name is None:
            for inner in _parts(node):
                self.node(inner, depth + 1)

    def _call(self, function: str, given: int, at: str) -> None:
        if function not in FUNCTIONS:
            raise unknown_name(f"function in {self.where}, {at}:", function, FUNCTIONS)
        least, _ = FUNCTIONS[function]
        if given < least or (given > least and function not in ("min", "max")):
            raise RciError(
                f"{self.where}: {function} at {at} takes {least} value{'s' * (least > 1)}, got {given}."
            )
        self.functions.add(function)


def _parts(node: ast.expr) -> list[ast.expr]:
    """What is computed first."""
    if isinstance(node, ast.Call):
        return node.args
    return [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.expr)]


def _value(node: ast.expr, column_of: Mapping[str, str], inputs: Mapping[str, Array], rows: int) -> Any:
    """The value of a part of the tree, which has been checked."""
    name = _column(node, column_of)
    if name is not None:
        return inputs[name]
    if isinstance(node, ast.Constant):
        return np.full(rows, float(node.value))  # type: ignore[arg-type]
    parts = [_value(inner, column_of, inputs, rows) for inner in _parts(node)]
    if isinstance(node, ast.UnaryOp):
        return -parts[0] if isinstance(node.op, ast.USub) else parts[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = FUNCTIONS[node.func.id][1]
        return reduce(function, parts) if len(parts) > 1 else function(parts[0])
    if isinstance(node, ast.Compare):
        return COMPARISONS[type(node.ops[0])](*parts).astype(np.float64)
    if isinstance(node, ast.BinOp):
        return BINARY[type(node.op)](*parts)
    raise RciError("this expression was not checked.")


def _column(node: ast.expr, column_of: Mapping[str, str]) -> str | None:
    """The column that a name means, or a name with dots such as obs.x; None if it is something else."""
    if isinstance(node, ast.Name):
        return column_of.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        before = _column(node.value, column_of)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
