"""Names of the messages of a task, and of the contexts they are sent in."""

START, KEYS, OUTCOME = "start", "keys", "outcome"
START_WEIGHTS, ROUND, READY, PRESENT = "start_weights", "round", "ready", "present"
CONTRIBUTIONS, SCALES = "contributions", "scales"
