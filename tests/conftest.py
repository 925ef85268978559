"""Settings of all tests."""
from hypothesis import settings

# The machine may be busy with three parties' processes: a slow example is no failure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
