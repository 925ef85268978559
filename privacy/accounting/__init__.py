"""From events to epsilon and delta, and back to the noise that a target needs."""
