"""The command line, with one command per file.

Exit codes: 0 success; 1 an unexpected failure; 2 wrong input; 3 refused because of the budget; 4 the ledger cannot be used;
5 the ledger was changed; 6 holders or programs disagree; 7 a privacy violation was found; 8 another party failed or could not
be reached.

May be imported by no other package.
"""
