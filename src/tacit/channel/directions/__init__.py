"""The normalised sum: parties learn the direction of every column of a total, and not how long it is.

`summer.py` is the protocol, from one party's view. Below it: arithmetic on shared numbers (`shares.py`, by MPyC), the thread in
which it runs (`worker.py`), MPyC without its sockets (`runtime.py`), and the bytes between two parties (`link.py`).
"""
