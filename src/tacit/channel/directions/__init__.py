"""The normalised sum: parties learn the direction of every column of a total, and not how long it is.

`summer.py` is the protocol, from one party's view. Below it: arithmetic on shared numbers, with an honest majority by MPyC
(`shares.py`, and `runtime.py`: MPyC without its sockets) or against all parties but one (`additive.py`, on the oblivious
transfers of `transfers.py`); the thread in which it runs (`worker.py`); the bytes between two parties (`link.py`).

It is NormedSecSum of Tsikhanovich et al. (2019), Algorithm 7. May be imported by the rest of `channel` and by
`parties`.
"""
