"""Names of the steps' contexts and messages, and of the session that messages are sealed for."""

COUNTS, SENDING, OPENING = "counts", "sending", "opening"
RECORDS, SERVER_KEY, STATISTICS = "records", "server_key", "statistics"


def messages_about(number: int) -> str:
    """Name of the messages of one request, the round of this number."""
    return f"messages_{number}"


def session_of(ctx) -> str:
    """The same at all parties of a task, another one for every task."""
    return ctx.federation.session_id
