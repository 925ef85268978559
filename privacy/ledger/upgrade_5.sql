-- From what commit 64436b6 wrote. It knew no families of label sources. Records behind them have no names now, so a source of
-- then is in the family of everything, as what was remembered under another key is.

INSERT INTO family (joined) SELECT 0 FROM entry WHERE unit = 'label' AND event <> '' GROUP BY subject;
UPDATE family SET joined = number WHERE joined = 0;
INSERT OR IGNORE INTO dataset_family
    SELECT subject, (SELECT max(number) FROM family) - row_number() OVER () + 1, 'version 5'
    FROM entry WHERE unit = 'label' AND event <> '' GROUP BY subject;
DROP TABLE label_record;
-- Ids were not trimmed then: tags of trimmed ones whose records this ledger knows with blanks at their ends alone.
CREATE TABLE id_blanks ( id_tag BLOB PRIMARY KEY, before TEXT NOT NULL, behind TEXT NOT NULL) WITHOUT ROWID;
