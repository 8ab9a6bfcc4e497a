"""Methods that change a table, one per file. None has a formal guarantee."""
