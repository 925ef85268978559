"""Python imports this first where it stands on PYTHONPATH: a process that a test starts has the mutant, too."""

import os

if os.environ.get("FATE_DP_TESTS_MUTANT"):
    from tests.mutants.planting import plant_from_environment

    plant_from_environment()
