"""Audit: a lower bound beside every upper bound.

A guarantee is an upper bound on what anyone can learn, which one has to believe; an attack is a lower bound, which one can see.
`audit` runs attacks on a model and returns both. What no attack sees is not thereby private.

May be imported by `cli`.
"""

from tacit.audit.audit import audit
from tacit.audit.certificate import Certificate
from tacit.audit.findings import Finding
from tacit.audit.result import Audit

__all__ = ["Audit", "Certificate", "Finding", "audit"]
