"""The command line, one command a file.

Exit codes: 0 done; 1 an unexpected failure; 2 wrong input; 3 refused, the budget does not allow it; 4 the ledger
cannot be used; 5 the ledger was tampered with; 6 holders or programs disagree; 7 a privacy violation was found; 8
another party failed or could not be reached.
"""
