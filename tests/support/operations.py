"""A measure of work that counts calls instead of time: the same on every machine, under any load."""

import sys


def calls_in(work):
    calls = 0

    def count(frame, event, function):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
