from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from driftbandit.serving.loop.windows import Due, Open, Pending


def decision(seq: int, expires: int) -> Open:
    return Open(str(seq), seq, expires, "", 0, 0, 0, None, 0.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=60), st.integers(0, 5))
def test_decisions_come_in_the_order_in_which_their_windows_close(steps: list[tuple[bool, int]], first: int) -> None:
    """Against a list that is sorted every time; windows get longer and shorter at will."""
    waiting = [decision(seq, 10 - seq) for seq in range(first)]
    due = Due(waiting)
    for seq, (taken, number) in enumerate(steps, first):
        if taken:
            expected = sorted((r for r in waiting if r.expires <= number), key=lambda r: (r.expires, r.seq))
            assert due.take(number) == expected
            waiting = [record for record in waiting if record.expires > number]
        else:
            waiting.append(decision(seq, number))
            due.add(waiting[-1])
        assert due.first == min((record.expires for record in waiting), default=float("inf"))


def test_when_a_number_of_windows_will_have_closed() -> None:
    due = Due([decision(seq, 10 * seq) for seq in (3, 1, 2)])
    assert [due.time_of(count) for count in (1, 2, 3, 4)] == [10, 20, 30, None]
    due.take(10)
    assert [due.time_of(count) for count in (1, 2, 3)] == [20, 30, None]


def test_scopes_with_nothing_pending_are_forgotten() -> None:
    records = [Open(f"{number}", number, 9, f"user {number}", 1, 2, 0, None, 0.0) for number in range(6)]
    records[0].learned = records[1].closed = True
    for role, epoch in ((0, 1), (1, 2)):
        pending = Pending(role, epoch, records)
        assert [pending[record.scope] for record in records] == [0, 0, 1, 1, 1, 1]
        pending.drop(records[2:])
        assert not pending._counts
    assert Pending(0, 2, records)["user 5"] == 0
