import threading

import pytest
from support.serving import wait_until

from hf_sgpe.errors import BusyError
from hf_sgpe.serving.request_queue import QueueClosedError, QueuedRequest, RequestQueue


@pytest.fixture
def queue():
    queue = RequestQueue(3)
    yield queue
    queue.close()
    queue.join()


def request(came, name, texts=1):
    """One whose texts each give their number twice."""
    new = QueuedRequest(lambda number, item: came.append((name, number, item)))
    new.texts = [iter_of(number) for number in range(texts)]
    return new


def iter_of(number):
    yield number
    yield number


def blocking(queue):
    go_on, begun = threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait()
        yield 0

    new = QueuedRequest(lambda number, item: None)
    new.texts = [work()]
    queue.add(new)
    begun.wait()
    return new, go_on


def test_the_first_to_come_is_served_first_and_many_texts_do_not_hold_up_others(queue):
    came = []
    _, go_on = blocking(queue)
    for name, texts in (("many", 3), ("one", 1), ("two", 2)):
        queue.add(request(came, name, texts))
    go_on.set()
    wait_until(lambda: not len(queue))
    order = [(name, number) for name, number, _ in came[::2]]
    assert order == [("many", 0), ("one", 0), ("two", 0), ("many", 1), ("two", 1), ("many", 2)]
    assert came[::2] == came[1::2]


def test_no_more_may_wait_than_there_are_places(queue):
    came = []
    _, go_on = blocking(queue)
    for _ in range(3):
        queue.add(request(came, "in"))
    with pytest.raises(BusyError, match="3 requests are already waiting"):
        queue.add(request(came, "out"))
    go_on.set()
    wait_until(lambda: not len(queue))
    assert {name for name, _, _ in came} == {"in"}


def test_who_is_gone_is_not_served(queue):
    came = []
    running, go_on = blocking(queue)
    leaving, staying = request(came, "leaving"), request(came, "staying")
    queue.add(leaving)
    queue.add(staying)
    queue.cancel(leaving)
    assert len(queue) == 2
    queue.cancel(running)
    assert running.is_cancelled()
    go_on.set()
    wait_until(lambda: not len(queue))
    assert {name for name, _, _ in came} == {"staying"}
    queue.cancel(staying)  # as happens to all in the end


def test_an_error_ends_its_ticket_and_nothing_else(queue):
    came = []

    def broken():
        yield 1
        raise RuntimeError("no memory")

    new = request(came, "broken", 3)
    new.texts[1] = broken()
    queue.add(new)
    queue.add(request(came, "next"))
    wait_until(lambda: not len(queue))
    of_broken = [(number, str(item)) for name, number, item in came if name == "broken"]
    assert of_broken == [(0, "0"), (0, "0"), (1, "1"), (1, "no memory")]
    assert [item for name, _, item in came if name == "next"] == [0, 0]


def test_closing_tells_all_that_wait_and_ends_the_thread():
    queue, came = RequestQueue(3), []
    running, go_on = blocking(queue)
    running.receive = lambda number, item: came.append(("running", number, item))
    queue.add(request(came, "waiting"))
    queue.close()
    assert running.is_cancelled()
    assert [(name, type(item)) for name, _, item in came] == [("waiting", QueueClosedError), ("running", QueueClosedError)]
    with pytest.raises(QueueClosedError, match="shutting down"):
        queue.add(request(came, "late"))
    go_on.set()
    queue.join()
    assert len(queue) == 0
    assert len(came) == 2
