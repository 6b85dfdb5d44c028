"""Which thread steps which world."""

import pytest

from rci.tasks.crew import Crew, work_shares


@pytest.mark.parametrize(
    ("worlds", "threads", "shares"),
    [(4, 1, [(0, 4)]), (5, 2, [(0, 2), (2, 5)]), (2, 9, [(0, 1), (1, 2)]), (1, None, [(0, 1)])],
)
def test_shares_of_the_work(worlds: int, threads: int | None, shares: list) -> None:
    assert work_shares(worlds, 1e-5, threads) == shares


def test_all_worlds_are_somebodys_work() -> None:
    for worlds in (1, 2, 17, 1000):
        for threads in (1, 2, 3, 8, None):
            shares = work_shares(worlds, 1e-3, threads)
            assert [i for first, last in shares for i in range(first, last)] == list(range(worlds))


def test_what_a_member_raises_is_raised() -> None:
    def work(member: int, first: int, last: int) -> None:
        if member == 1:
            raise ValueError(f"worlds {first} to {last}")

    crew = Crew(4, 1.0, threads=2)
    with pytest.raises(ValueError, match="worlds 2 to 4"):
        crew.run(work)
    crew.close()


def test_a_fork_starts_threads_of_its_own() -> None:
    crew, seen = Crew(2, 1.0, threads=2), []
    crew.run(lambda *share: seen.append(share))
    old = crew._pool
    crew._process = -1  # as if this were the child of the process that started the threads
    crew.run(lambda *share: seen.append(share))
    assert crew._pool is not old
    assert sorted(seen) == sorted([(0, 0, 1), (1, 1, 2)] * 2)
    crew.close()
    old.shutdown()
