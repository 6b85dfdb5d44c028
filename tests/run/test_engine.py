"""What is the same on every engine: the order, what is skipped, what is tried again, what is told of failures."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from rci.data.errors import RciError
from rci.engines import run as run_module
from rci.engines.engine import LOCAL, Engine, News
from rci.engines.local import _interrupts_later
from rci.engines.run import ATTEMPTS, run_tasks


@dataclass(frozen=True)
class Chore:
    """A task that leaves a file; `how` it goes wrong, if it does."""

    name: str
    folder: Path
    needs: tuple[str, ...] = ()
    how: str = ""

    def outstanding(self):
        return None if (self.folder / self.name).exists() else self

    def land(self):
        if self.how == "lands nowhere":
            raise RciError("there is no place for it.")

    def run(self, progress):
        progress(0.5)
        print(f"{self.name} has something to say", flush=True)
        if self.how == "mistake":
            raise RciError("this cannot be done.")
        if self.how == "bug":
            raise KeyError("a bug")
        if self.how == "dies":
            with open(self.folder / f"{self.name}.attempts", "a") as file:
                file.write(".")
            os.kill(os.getpid(), signal.SIGKILL)
        assert all((self.folder / name).exists() for name in self.needs)
        (self.folder / self.name).write_text("done")


def silent(task, share, seconds):
    pass


def test_everything_is_done_after_what_it_needs_and_told_once(tmp_path):
    told = []
    chores = [
        Chore("last", tmp_path, ("first", "second")),
        Chore("second", tmp_path, ("first",)),
        Chore("first", tmp_path),
    ]
    run_tasks(chores, LOCAL, lambda task, share, seconds: told.append((task.name, share)))
    assert [name for name, share in told if share == 1.0] == ["first", "second", "last"]
    told.clear()
    run_tasks(chores, LOCAL, lambda task, share, seconds: told.append((task.name, seconds)))
    assert told == [("first", None), ("second", None), ("last", None)]  # nothing had to be done


def test_failures_are_told_at_the_end_with_their_logs_and_the_rest_is_done(tmp_path):
    chores = [
        Chore("mistaken", tmp_path, how="mistake"),
        Chore("buggy", tmp_path, how="bug"),
        Chore("after", tmp_path, ("buggy", "fine")),
        Chore("long-after", tmp_path, ("after",)),
        Chore("fine", tmp_path),
    ]
    with pytest.raises(RciError) as failed:
        run_tasks(chores, Engine(workers=1), silent, tmp_path / "failed")
    said = str(failed.value)
    assert "2 tasks failed; the others are done and kept." in said
    assert f"mistaken: this cannot be done. (log: {tmp_path / 'failed' / 'mistaken.log'})" in said
    assert "buggy: it failed with KeyError: 'a bug'" in said
    assert "2 tasks that need what failed were not run." in said
    assert (tmp_path / "fine").exists()
    assert not (tmp_path / "after").exists()
    log = (tmp_path / "failed" / "buggy.log").read_text()
    assert "buggy has something to say" in log
    assert 'raise KeyError("a bug")' in log
    # Mended, it goes on, and the old log does not stay to mislead.
    run_tasks([Chore("buggy", tmp_path), *chores[2:]], LOCAL, silent, tmp_path / "failed")
    assert (tmp_path / "long-after").exists()
    assert not (tmp_path / "failed" / "buggy.log").exists()
    run_tasks([Chore("mistaken", tmp_path)], LOCAL, silent, tmp_path / "failed")
    assert not (tmp_path / "failed").exists()


def test_what_needs_an_accepted_failure_is_left_undone_and_the_run_ends_well(tmp_path):
    """`after` needs it among others, `long-after` through `after`; both are left out once, the rest is done."""
    chores = [
        Chore("hopeless", tmp_path, how="mistake"),
        Chore("first", tmp_path),
        Chore("after", tmp_path, ("hopeless", "first")),
        Chore("long-after", tmp_path, ("after", "hopeless")),
        Chore("fine", tmp_path, ("first",)),
    ]
    asked = []

    def accept(task, why):
        asked.append((task.name, why))
        return True

    run_tasks(chores, Engine(workers=1), silent, tmp_path / "failed", accept)
    assert asked == [("hopeless", "this cannot be done.")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["failed", "fine", "first"]
    assert "hopeless has something to say" in (tmp_path / "failed" / "hopeless.log").read_text()


def test_an_accepted_failure_that_nobody_needs_hides_no_other(tmp_path):
    chores = [
        Chore("hopeless", tmp_path, how="mistake"),
        Chore("mistaken", tmp_path, how="mistake"),
        Chore("after", tmp_path, ("mistaken",)),
        Chore("fine", tmp_path),
    ]
    with pytest.raises(RciError) as failed:
        run_tasks(chores, Engine(workers=1), silent, accept=lambda task, why: task.name == "hopeless")
    said = str(failed.value)
    assert said.startswith("mistaken: this cannot be done.")
    assert said.endswith("\n1 tasks that need what failed were not run.")
    assert "hopeless" not in said
    assert (tmp_path / "fine").exists()
    # Alone it is no failure at all.
    run_tasks([chores[0]], Engine(workers=1), silent, accept=lambda task, why: True)


def test_what_needs_two_failures_is_counted_once(tmp_path):
    chores = [
        Chore("hopeless", tmp_path, how="mistake"),
        Chore("mistaken", tmp_path, how="mistake"),
        Chore("after", tmp_path, ("hopeless", "mistaken")),
        Chore("waiting", tmp_path, ("mistaken",)),
    ]
    with pytest.raises(RciError, match="\n1 tasks that need what failed were not run"):
        run_tasks(chores, Engine(workers=1), silent, accept=lambda task, why: task.name == "hopeless")


@pytest.mark.parametrize("how", ["bug", "dies"])
def test_bugs_and_lost_workers_are_never_accepted(tmp_path, how):
    with pytest.raises(RciError, match="hopeless: "):
        run_tasks(
            [Chore("hopeless", tmp_path, how=how)], Engine(workers=1), silent, accept=lambda task, why: True
        )


def test_a_task_that_kills_its_worker_is_given_up_and_its_last_words_are_kept(tmp_path):
    chores = [Chore("deadly", tmp_path, how="dies"), Chore("fine", tmp_path)]
    with pytest.raises(RciError, match=r"deadly: the worker that ran it died \(exit code -9\)"):
        run_tasks(chores, Engine(workers=1), silent, tmp_path / "failed")
    assert (tmp_path / "deadly.attempts").read_text() == "." * ATTEMPTS
    assert (tmp_path / "fine").exists()
    assert "deadly has something to say" in (tmp_path / "failed" / "deadly.log").read_text()


def test_what_cannot_land_is_a_failure_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "open_pool", lambda engine: Instantly(1))
    chores = [
        Chore("adrift", tmp_path, how="lands nowhere"),
        Chore("after", tmp_path, ("adrift",)),
        Chore("fine", tmp_path),
    ]
    with pytest.raises(RciError) as failed:
        run_tasks(chores, LOCAL, silent)
    assert str(failed.value).splitlines() == [
        "adrift: there is no place for it.",
        "1 tasks that need what failed were not run.",
    ]
    assert (tmp_path / "fine").exists()


def test_what_ends_a_run_does_not_hide_what_failed_before(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Unreachable(Chore):
        def outstanding(self):
            raise RciError("the store cannot be reached.")

    monkeypatch.setattr(run_module, "open_pool", lambda engine: Instantly(1))
    chores = [Chore("adrift", tmp_path, how="lands nowhere"), Unreachable("other", tmp_path)]
    with pytest.raises(RciError) as failed:
        run_tasks(chores, LOCAL, silent)
    told = ["adrift: there is no place for it.", "the store cannot be reached."]
    assert str(failed.value).splitlines() == told


def test_a_plan_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="nobody planned: nothing"):
        run_tasks([Chore("a", tmp_path, ("nothing",))], LOCAL, silent)
    with pytest.raises(RuntimeError, match="same name"):
        run_tasks([Chore("a", tmp_path), Chore("a", tmp_path)], LOCAL, silent)
    with pytest.raises(RuntimeError, match="wait for each other: a, b"):
        run_tasks([Chore("a", tmp_path, ("b",)), Chore("b", tmp_path, ("a",))], LOCAL, silent)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "slurm"}, "unknown engine 'slurm'"),
        ({"address": "auto"}, "give --engine ray with it"),
        ({"workers": 0}, "at least one worker"),
        ({"store": "ftp://me:secret@there/rci"}, "must not have a password in it"),
        ({"store": ""}, "--store is empty"),
    ],
)
def test_an_engine_that_cannot_be(settings, said):
    with pytest.raises(RciError, match=said):
        Engine(**settings)


class Instantly:
    """A pool without processes, to see the order in which tasks are given to it."""

    def __init__(self, room):
        self.room, self.working, self.order = room, [], []

    @property
    def busy(self):
        return len(self.working)

    def has_room(self):
        return len(self.working) < self.room

    def start(self, task, work):
        self.order.append(task.name)
        self.working.append(task)

    def news(self):
        task = self.working.pop()
        (task.folder / task.name).write_text("done")
        return [News(task, 1.0, 0.0)]

    def close(self):
        pass


def test_tasks_keep_their_order_when_several_can_be_done(tmp_path, monkeypatch):
    pool = Instantly(1)
    monkeypatch.setattr(run_module, "open_pool", lambda engine: pool)
    chores = [
        Chore("a", tmp_path),
        Chore("b", tmp_path, ("a",)),
        Chore("c", tmp_path),
        Chore("d", tmp_path, ("b",)),
    ]
    run_tasks(chores, LOCAL, silent)
    assert pool.order == ["a", "b", "c", "d"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_interrupt_waits_while_a_worker_is_started(elsewhere):
    """Ctrl-C may reach a thread that does not block it, such as one that draws progress bars."""
    over, got_through = threading.Event(), []
    other = threading.Thread(target=over.wait)
    other.start()

    def interrupted():
        with _interrupts_later():
            target = other if elsewhere else threading.main_thread()
            signal.pthread_kill(target.ident, signal.SIGINT)
            time.sleep(0.05)
            got_through.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        over.set()
        other.join()
    assert got_through
