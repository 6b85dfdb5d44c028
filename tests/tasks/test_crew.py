"""Which thread steps which world."""

import numpy as np
import pytest

from rci.tasks.threads import Crew, members_for, work_shares


@pytest.mark.parametrize(
    ("worlds", "threads", "members"), [(4, 1, 1), (5, 2, 2), (2, 9, 2), (1, None, 1), (4, np.int64(3), 3)]
)
def test_how_many_share_the_work(worlds: int, threads: int | None, members: int) -> None:
    assert members_for(worlds, 1e-5, threads) == members


def test_shares_of_the_work() -> None:
    assert work_shares(4, 1.0, 1) == [(0, 4)]
    assert work_shares(5, 1e-5, 2) == [(0, 2), (2, 5)]  # too little to be cut smaller
    assert work_shares(5, 1.0, 2) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert len(work_shares(1000, 1.0, 2)) == 16


def test_all_worlds_are_somebodys_work() -> None:
    for worlds in (1, 2, 17, 1000):
        for threads in (1, 2, 3, 8, None):
            for seconds in (1e-6, 1e-3):
                crew, seen = Crew(worlds, seconds, threads), []
                crew.run(lambda _, first, last, seen=seen: seen.extend(range(first, last)))
                crew.close()
                assert sorted(seen) == list(range(worlds))


def test_what_a_member_raises_is_raised() -> None:
    def work(member: int, first: int, last: int) -> None:
        if first == 2:
            raise ValueError(f"worlds {first} to {last}")

    crew = Crew(4, 1.0, threads=2)
    with pytest.raises(ValueError, match="worlds 2 to 3"):
        crew.run(work)
    crew.close()


def test_a_fork_starts_threads_of_its_own() -> None:
    crew, seen = Crew(2, 1.0, threads=2), []
    crew.run(lambda _, *share: seen.append(share))
    old = crew._pool
    crew._process = -1  # as if this were the child of the process that started the threads
    crew.run(lambda _, *share: seen.append(share))
    assert crew._pool is not old
    assert sorted(seen) == sorted([(0, 1), (1, 2)] * 2)
    crew.close()
    old.shutdown()
