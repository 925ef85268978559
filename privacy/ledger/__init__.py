"""The privacy ledger of one party: a SQLite file of what was released, to whom, at what price."""
