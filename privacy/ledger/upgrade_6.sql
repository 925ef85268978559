-- From ledgers that kept no sums. SQLite keeps these in the transaction that writes the rows, whichever statement does. All are
-- whole numbers or sets, so that they are what a recount says. Rows are only ever added, and marked.

CREATE TABLE entry_sum (
    entry_id INTEGER PRIMARY KEY REFERENCES entry, uses INTEGER NOT NULL, pending INTEGER NOT NULL,
    rounds INTEGER NOT NULL, fingerprints INTEGER NOT NULL, most_records INTEGER NOT NULL,
    first_id INTEGER NOT NULL, last_id INTEGER NOT NULL);
CREATE TABLE entry_note (entry_id INTEGER NOT NULL REFERENCES entry, note TEXT NOT NULL, UNIQUE (entry_id, note));
CREATE TABLE counted_use (
    mechanism TEXT NOT NULL, subject TEXT NOT NULL, fingerprint TEXT NOT NULL,
    PRIMARY KEY (mechanism, subject, fingerprint)) WITHOUT ROWID;
CREATE TRIGGER release_is_counted AFTER INSERT ON release BEGIN
    INSERT INTO entry_sum
        VALUES (NEW.entry_id, 1, NEW.state = 'pending', 0, 1, NEW.records, NEW.release_id, NEW.release_id)
        ON CONFLICT (entry_id) DO UPDATE SET uses = uses + 1, pending = pending + excluded.pending,
        fingerprints = fingerprints + NOT EXISTS (
            SELECT 1 FROM release r WHERE r.entry_id = NEW.entry_id AND r.fingerprint = NEW.fingerprint AND NOT {new}),
        most_records = max(most_records, excluded.most_records), first_id = min(first_id, excluded.first_id),
        last_id = max(last_id, excluded.last_id);
    INSERT OR IGNORE INTO entry_note {notes_of_new};
    INSERT OR IGNORE INTO counted_use {counted_of_new};
END;
CREATE TRIGGER release_is_marked AFTER UPDATE OF state ON release BEGIN
    UPDATE entry_sum SET pending = pending + (NEW.state = 'pending') - (OLD.state = 'pending')
        WHERE entry_id = NEW.entry_id;
END;
CREATE TRIGGER step_is_counted AFTER INSERT ON private_step BEGIN
    UPDATE entry_sum SET rounds = rounds + NEW.rounds
        WHERE entry_id = (SELECT entry_id FROM release WHERE release_id = NEW.release_id);
END;
INSERT INTO entry_sum {recount};
INSERT OR IGNORE INTO entry_note {notes};
INSERT OR IGNORE INTO counted_use {counted};
