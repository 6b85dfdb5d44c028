"""Commands, names, artefacts and keys are as they were written down: a change of the source moves none by accident."""

import difflib

import pytest
from golden.write import HERE, WITHOUT_A_RUN, as_text, run_layout


def compare(name: str, value: object) -> None:
    """The golden file and the present state, or the lines in which they differ."""
    golden, present = (HERE / f"{name}.json").read_text(), as_text(value)
    lines = difflib.unified_diff(golden.splitlines(), present.splitlines(), "golden", "present", lineterm="")
    assert golden == present, (
        f"{name} is not what tests/golden/{name}.json says. If that is on purpose, run "
        "`python tests/golden/write.py` and commit what it changes.\n" + "\n".join(lines)
    )


@pytest.mark.parametrize("name", WITHOUT_A_RUN)
def test_commands_names_and_keys_are_as_written_down(name):
    compare(name, WITHOUT_A_RUN[name]())


def test_a_run_writes_what_was_written_down(tiny_run):
    compare("run", run_layout(tiny_run[0]))


def test_a_difference_is_shown_with_the_way_to_accept_it():
    with pytest.raises(AssertionError, match=r"(?s)python tests/golden/write\.py.*\+ ?\"another\""):
        compare("names", {**WITHOUT_A_RUN["names"](), "another": []})
