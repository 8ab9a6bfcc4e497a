"""tacit: factorise data that nobody may look at."""
