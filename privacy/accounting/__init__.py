"""From events to epsilon (nats) and delta, and back to the noise that a target needs; all answers are upper bounds."""
