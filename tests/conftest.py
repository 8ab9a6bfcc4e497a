"""Settings of all tests."""

# The search for doctests would import these as modules of one name, and stop at the second.
collect_ignore_glob = ["*/conftest.py", "conftest.py"]
