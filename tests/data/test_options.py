from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pytest

from rci.data.errors import RciError, unknown_name
from rci.data.options import build, build_parts


@dataclass(frozen=True)
class Inner:
    depth: int = 1


@dataclass(frozen=True)
class Outer:
    width: int = 1
    rate: float = 0.1
    mode: Literal["fast", "slow"] = "fast"
    budgets: tuple[float | str, ...] = ()
    on: bool = False
    inner: Inner = field(default_factory=Inner)


class Rates(NamedTuple):
    speed: float = 1.0


def test_nested_values_are_checked_and_converted():
    built = build(Outer, {"rate": 3, "budgets": [0.1, "P30"], "inner": {"depth": 2}}, "settings")
    assert built == Outer(rate=3.0, budgets=(0.1, "P30"), inner=Inner(2))
    assert isinstance(built.rate, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"widht": 3}, "unknown setting in settings 'widht'. Did you mean 'width'?"),
        ({"width": 3.5}, "settings.width must be a whole number, not 3.5"),
        ({"width": "3"}, "settings.width must be a whole number"),
        ({"width": True}, "settings.width must be a whole number"),
        ({"on": 1}, "settings.on must be true or false"),
        ({"mode": "medium"}, "settings.mode must be one of fast, slow"),
        ({"budgets": 0.1}, "settings.budgets must be a list"),
        ({"budgets": [[]]}, r"settings.budgets\[0\] must be"),
        ({"inner": 3}, "settings.inner must be a table"),
        ({"inner": {"deep": 3}}, "unknown setting in settings.inner 'deep'. Did you mean 'depth'?"),
    ],
)
def test_mistakes_are_named(values, message):
    with pytest.raises(RciError, match=message):
        build(Outer, values, "settings")


def test_parts_share_one_flat_table():
    assert build_parts((Inner, Rates), {"speed": 2, "depth": 3}, "x") == (Inner(3), Rates(2.0))
    with pytest.raises(RciError, match="unknown setting of x 'sped'. Did you mean 'speed'"):
        build_parts((Inner, Rates), {"sped": 2}, "x")


def test_a_name_far_from_all_gets_no_guess():
    assert str(unknown_name("task", "zzz", ["point"])) == "unknown task 'zzz'. Known: point."
