"""Which thread steps which world."""

import numpy as np
import pytest

from rci.tasks.threads import WorkerThreads, thread_count, work_shares


@pytest.mark.parametrize(
    ("worlds", "threads", "expected"), [(4, 1, 1), (5, 2, 2), (2, 9, 2), (1, None, 1), (4, np.int64(3), 3)]
)
def test_how_many_share_the_work(worlds: int, threads: int | None, expected: int) -> None:
    assert thread_count(worlds, 1e-5, threads) == expected


def test_shares_of_the_work() -> None:
    assert work_shares(4, 1.0, 1) == [(0, 4)]
    assert work_shares(5, 1e-5, 2) == [(0, 2), (2, 5)]  # too little to be cut smaller
    assert work_shares(5, 1.0, 2) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert len(work_shares(1000, 1.0, 2)) == 16


def test_all_worlds_are_somebodys_work() -> None:
    for worlds in (1, 2, 17, 1000):
        for threads in (1, 2, 3, 8, None):
            for seconds in (1e-6, 1e-3):
                workers, seen = WorkerThreads(worlds, seconds, threads), []
                workers.run(lambda _, first, last, seen=seen: seen.extend(range(first, last)))
                workers.close()
                assert sorted(seen) == list(range(worlds))


def test_what_a_thread_raises_is_raised() -> None:
    def work(thread: int, first: int, last: int) -> None:
        if first == 2:
            raise ValueError(f"worlds {first} to {last}")

    workers = WorkerThreads(4, 1.0, threads=2)
    with pytest.raises(ValueError, match="worlds 2 to 3"):
        workers.run(work)
    workers.close()


def test_a_fork_starts_threads_of_its_own() -> None:
    workers, seen = WorkerThreads(2, 1.0, threads=2), []
    workers.run(lambda _, *share: seen.append(share))
    old = workers._pool
    workers._process = -1  # as if this were the child of the process that started the threads
    workers.run(lambda _, *share: seen.append(share))
    assert workers._pool is not old
    assert sorted(seen) == sorted([(0, 1), (1, 2)] * 2)
    workers.close()
    old.shutdown()
