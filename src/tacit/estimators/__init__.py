"""What all models share: the private fit, running among holders, checking input, saving, and the registry of models."""
