"""Several organisations, one model: identities, the job they agree on, the network between them, and running it.

May be imported by `reproduce`, `app` and `cli`.
"""

from tacit.parties.identity import Identity
from tacit.parties.job import Job, Party
from tacit.parties.join import join
from tacit.parties.local import run_local

__all__ = ["Identity", "Job", "Party", "join", "run_local"]
