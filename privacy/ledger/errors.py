"""Why a ledger refuses; every message is one sentence that names no record and no label."""


class LedgerError(ValueError):
    """Base of the ledger's refusals; nothing was written."""


class BudgetExceeded(LedgerError):
    """The release would take the total epsilon of a label source or a dataset beyond its cap."""


class ReleaseKeyReused(LedgerError):
    """A release key names another release already; one draw is released once."""


class CorrectedLabel(LedgerError):
    """A label was changed after it had been released.

    ``public`` is what other parties may be told: that a label changed is what the refusal keeps from them.
    """

    public = "The guest's ledger refuses these labels; the guest's operator can see why."


class OtherSource(LedgerError):
    """Labels that were released under one source are to be released under another, which would open a new budget.

    ``public`` is what other parties may be told: how far labels agree is the guest's own.
    """

    public = "The guest's ledger refuses these labels under this label_source; the guest's operator can see why."


class TooManyRecords(LedgerError):
    """A source has released labels of as many records as its operator declared, and more are asked for."""


class ClassesChanged(LedgerError):
    """Labels were released at this epsilon under another list of classes."""


class DuplicateRecord(LedgerError):
    """The same record occurs twice in one request."""


class UnknownRelease(LedgerError):
    """The request refers to a release, entry or record that the ledger does not hold."""


class ScoreCapExceeded(LedgerError):
    """The release of joint scores would go beyond the cap of the host's dataset."""


class LedgerUnavailable(LedgerError):
    """The ledger file cannot be read or written, is damaged, locked, or of a newer version than this program."""
