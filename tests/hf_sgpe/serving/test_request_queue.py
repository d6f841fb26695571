import threading

import pytest
from support.serving import wait_until

from hf_sgpe.serving.request_queue import Line, LineClosedError, LineFullError, Ticket


@pytest.fixture
def line():
    line = Line(3)
    yield line
    line.close()
    line.join()


def ticket(came, name, texts=1):
    """One whose texts each give their number twice."""
    new = Ticket(lambda number, item: came.append((name, number, item)))
    new.texts = [iter_of(number) for number in range(texts)]
    return new


def iter_of(number):
    yield number
    yield number


def blocking(line):
    go_on, begun = threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait()
        yield 0

    new = Ticket(lambda number, item: None)
    new.texts = [work()]
    line.add(new)
    begun.wait()
    return new, go_on


def test_the_first_to_come_is_served_first_and_many_texts_do_not_hold_up_others(line):
    came = []
    _, go_on = blocking(line)
    for name, texts in (("many", 3), ("one", 1), ("two", 2)):
        line.add(ticket(came, name, texts))
    go_on.set()
    wait_until(lambda: not len(line))
    order = [(name, number) for name, number, _ in came[::2]]
    assert order == [("many", 0), ("one", 0), ("two", 0), ("many", 1), ("two", 1), ("many", 2)]
    assert came[::2] == came[1::2]


def test_no_more_may_wait_than_there_are_places(line):
    came = []
    _, go_on = blocking(line)
    for _ in range(3):
        line.add(ticket(came, "in"))
    with pytest.raises(LineFullError, match="3 requests are already waiting"):
        line.add(ticket(came, "out"))
    go_on.set()
    wait_until(lambda: not len(line))
    assert {name for name, _, _ in came} == {"in"}


def test_who_is_gone_is_not_served(line):
    came = []
    running, go_on = blocking(line)
    leaving, staying = ticket(came, "leaving"), ticket(came, "staying")
    line.add(leaving)
    line.add(staying)
    line.cancel(leaving)
    assert len(line) == 2
    line.cancel(running)
    assert running.is_cancelled()
    go_on.set()
    wait_until(lambda: not len(line))
    assert {name for name, _, _ in came} == {"staying"}
    line.cancel(staying)  # as happens to all in the end


def test_an_error_ends_its_ticket_and_nothing_else(line):
    came = []

    def broken():
        yield 1
        raise RuntimeError("no memory")

    new = ticket(came, "broken", 3)
    new.texts[1] = broken()
    line.add(new)
    line.add(ticket(came, "next"))
    wait_until(lambda: not len(line))
    of_broken = [(number, str(item)) for name, number, item in came if name == "broken"]
    assert of_broken == [(0, "0"), (0, "0"), (1, "1"), (1, "no memory")]
    assert [item for name, _, item in came if name == "next"] == [0, 0]


def test_closing_tells_all_that_wait_and_ends_the_thread():
    line, came = Line(3), []
    running, go_on = blocking(line)
    running.receive = lambda number, item: came.append(("running", number, item))
    line.add(ticket(came, "waiting"))
    line.close()
    assert running.is_cancelled()
    assert [(name, type(item)) for name, _, item in came] == [("waiting", LineClosedError), ("running", LineClosedError)]
    with pytest.raises(LineClosedError, match="shutting down"):
        line.add(ticket(came, "late"))
    go_on.set()
    line.join()
    assert len(line) == 0
    assert len(came) == 2
