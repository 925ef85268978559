-- A ledger file of version 5, as commit 64436b6 wrote it.
-- Records 0 to 3 flipped at 2, records 0 and 1 at 0.5 (pending), records 3 and 4 at 1.5 under another key; derived labels
-- of records 0 to 2; public labels; joint scores of two related datasets; a prediction.
CREATE TABLE dataset_column (
    dataset TEXT NOT NULL,
    column_name TEXT NOT NULL,
    PRIMARY KEY (dataset, column_name)) WITHOUT ROWID;
INSERT INTO "dataset_column" VALUES('columns:0f1e2d3c4b5a6978','a');
INSERT INTO "dataset_column" VALUES('columns:0f1e2d3c4b5a6978','b');
INSERT INTO "dataset_column" VALUES('columns:ffff','b');
INSERT INTO "dataset_column" VALUES('columns:ffff','c');
CREATE TABLE dataset_family (
    dataset TEXT PRIMARY KEY, family INTEGER NOT NULL, key_id TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "dataset_family" VALUES('columns:0f1e2d3c4b5a6978',1,'');
INSERT INTO "dataset_family" VALUES('columns:ffff',1,'');
CREATE TABLE dataset_table (
    dataset TEXT NOT NULL, table_name TEXT NOT NULL,
    PRIMARY KEY (dataset, table_name)) WITHOUT ROWID;
CREATE TABLE derived_from (
    set_id INTEGER PRIMARY KEY REFERENCES derived_set, releases TEXT NOT NULL);
CREATE TABLE derived_label (
    set_id INTEGER NOT NULL REFERENCES derived_set,
    id_tag BLOB NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (set_id, id_tag)) WITHOUT ROWID;
INSERT INTO "derived_label" VALUES(1,X'9B5C230152FE4E29047D71FC4F179D8B','0.25');
INSERT INTO "derived_label" VALUES(1,X'9D2CDE0902D56DCAF4D552FD0676A722','0.25');
INSERT INTO "derived_label" VALUES(1,X'F9364E521D626A6954C4751B8676429D','0.25');
CREATE TABLE derived_set (
    set_id INTEGER PRIMARY KEY,
    entry_id INTEGER NOT NULL REFERENCES entry,
    digest TEXT NOT NULL,
    UNIQUE (entry_id, digest));
INSERT INTO "derived_set" VALUES(1,4,'87487ace1d245d884be44bbb7935130797ec90f24463714fa3a96a670436570d');
CREATE TABLE entry (
    entry_id INTEGER PRIMARY KEY, subject TEXT NOT NULL, mechanism TEXT NOT NULL,
    unit TEXT NOT NULL, relation TEXT NOT NULL, observer TEXT NOT NULL, epsilon REAL, delta REAL,
    classes INTEGER NOT NULL, class_labels TEXT NOT NULL, key_id TEXT NOT NULL, parent_id INTEGER NOT NULL,
    purpose TEXT NOT NULL, counted INTEGER NOT NULL, event TEXT NOT NULL,
    UNIQUE (subject, mechanism, epsilon, classes, key_id, parent_id, purpose));
INSERT INTO "entry" VALUES(
    1,'experiment/breast_guest/y','randomized_response','label','replace_one','arbiter, host, model',2.0,
    0.0,2,'["0", "1"]','fc06c80c8a35a971',0,'',1,
    '{"mechanism": "RandomizedResponse", "observers": ["arbiter", "host", "model"], "parameters": {"classes": 2, "epsilon": 2.0}, "relation": "replace_one", "slack": 0.0, "unit": "label"}');
INSERT INTO "entry" VALUES(
    2,'experiment/breast_guest/y','randomized_response','label','replace_one','arbiter, host, model',0.5,
    0.0,2,'','fc06c80c8a35a971',0,'',1,
    '{"mechanism": "RandomizedResponse", "observers": ["arbiter", "host", "model"], "parameters": {"classes": 2, "epsilon": 0.5}, "relation": "replace_one", "slack": 0.0, "unit": "label"}');
INSERT INTO "entry" VALUES(
    3,'experiment/breast_guest/y','randomized_response','label','replace_one','arbiter, host, model',1.5,
    0.0,3,'','f3864a7c1b0fa807',0,'',1,
    '{"mechanism": "RandomizedResponse", "observers": ["arbiter", "host", "model"], "parameters": {"classes": 3, "epsilon": 1.5}, "relation": "replace_one", "slack": 0.0, "unit": "label"}');
INSERT INTO "entry" VALUES(
    4,'experiment/breast_guest/y','post-processing','label','replace_one','arbiter, host, model',0.0,0.0,2,
    '','fc06c80c8a35a971',1,'flipback swap',0,'');
INSERT INTO "entry" VALUES(
    5,'public/breast_guest/y','not private','label','replace_one','arbiter, host, model',9e999,0.0,0,'','',0,
    '',0,'');
INSERT INTO "entry" VALUES(
    6,'columns:0f1e2d3c4b5a6978','joint scores','record','replace_one','guest',9e999,0.0,0,'','',0,'flipback',
    1,
    '{"mechanism": "NotPrivate", "observers": ["guest"], "parameters": {"reason": "joint scores show the guest X_h w_h"}, "relation": "replace_one", "slack": 0.0, "unit": "record"}');
INSERT INTO "entry" VALUES(
    7,'columns:ffff','joint scores','record','replace_one','guest',9e999,0.0,0,'','',0,'accuracy per epoch',1,
    '{"mechanism": "NotPrivate", "observers": ["guest"], "parameters": {"reason": "joint scores show the guest X_h w_h"}, "relation": "replace_one", "slack": 0.0, "unit": "record"}');
INSERT INTO "entry" VALUES(
    8,'columns:0f1e2d3c4b5a6978','joint scores','record','replace_one','guest',9e999,0.0,0,'','',0,
    'prediction',0,
    '{"mechanism": "NotPrivate", "observers": ["guest"], "parameters": {"reason": "joint scores show the guest X_h w_h"}, "relation": "replace_one", "slack": 0.0, "unit": "record"}');
CREATE TABLE family (
    number INTEGER PRIMARY KEY, joined INTEGER NOT NULL);
INSERT INTO "family" VALUES(1,1);
CREATE TABLE family_record (
    record BLOB PRIMARY KEY, number INTEGER NOT NULL REFERENCES family) WITHOUT ROWID;
CREATE TABLE label_record (
    record BLOB NOT NULL, source TEXT NOT NULL, true_label BLOB NOT NULL,
    PRIMARY KEY (record, source)) WITHOUT ROWID;
CREATE TABLE ledger_version (version INTEGER NOT NULL);
INSERT INTO "ledger_version" VALUES(5);
CREATE TABLE model_scores (
    digest TEXT PRIMARY KEY, releases TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE private_step (
    release_id INTEGER PRIMARY KEY REFERENCES release, release_key TEXT NOT NULL UNIQUE,
    rounds INTEGER NOT NULL);
CREATE TABLE public_label (
    source TEXT NOT NULL,
    key_id TEXT NOT NULL,
    id_tag BLOB NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID;
INSERT INTO "public_label" VALUES(
    'public/breast_guest/y','fc06c80c8a35a971',X'E1B76F168FD631F530BADE02C32CF73D','0');
INSERT INTO "public_label" VALUES(
    'public/breast_guest/y','fc06c80c8a35a971',X'FEBDD6603DC26C24DFCBED19FAED8DD3','1');
CREATE TABLE release (
    release_id INTEGER PRIMARY KEY,
    entry_id INTEGER NOT NULL REFERENCES entry,
    job_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    time REAL NOT NULL,
    records INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    note TEXT NOT NULL);
INSERT INTO "release" VALUES(1,1,'job-1','task-job-1',1700000000.0,4,'fjob-1','released','');
INSERT INTO "release" VALUES(2,2,'job-2','task-job-2',1700000060.0,2,'fjob-2','pending','');
INSERT INTO "release" VALUES(3,3,'job-3','task-job-3',1700000120.0,2,'fjob-3','released','');
INSERT INTO "release" VALUES(
    4,4,'job-4','task-job-4',1700000180.0,3,
    '87487ace1d245d884be44bbb7935130797ec90f24463714fa3a96a670436570d','released','');
INSERT INTO "release" VALUES(
    5,5,'job-5','task-job-5',1700000240.0,2,'','released','trained on labels declared public');
INSERT INTO "release" VALUES(6,6,'job-6','task-job-6',1700000300.0,4,'w1','released','');
INSERT INTO "release" VALUES(7,6,'job-6','task-job-6',1700000360.0,4,'w2','released','');
INSERT INTO "release" VALUES(8,7,'job-6','task-job-6',1700000420.0,4,'w3','released','');
INSERT INTO "release" VALUES(9,8,'job-6','task-job-6',1700000480.0,4,'w1','released','');
CREATE TABLE released_label (
    entry_id INTEGER NOT NULL REFERENCES entry,
    id_tag BLOB NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (entry_id, id_tag)) WITHOUT ROWID;
INSERT INTO "released_label" VALUES(1,X'9B5C230152FE4E29047D71FC4F179D8B','1');
INSERT INTO "released_label" VALUES(1,X'9D2CDE0902D56DCAF4D552FD0676A722','0');
INSERT INTO "released_label" VALUES(1,X'E27DF772EF69FD261A6DD622B8460619','1');
INSERT INTO "released_label" VALUES(1,X'F9364E521D626A6954C4751B8676429D','0');
INSERT INTO "released_label" VALUES(2,X'9B5C230152FE4E29047D71FC4F179D8B','1');
INSERT INTO "released_label" VALUES(2,X'9D2CDE0902D56DCAF4D552FD0676A722','0');
INSERT INTO "released_label" VALUES(3,X'86E527394E6F7AA0E7049C6EF47FEC1F','0');
INSERT INTO "released_label" VALUES(3,X'EC271738AECD55BB195C810431F88125','1');
CREATE TABLE training_record (
    dataset TEXT NOT NULL,
    id_tag BLOB NOT NULL,
    PRIMARY KEY (dataset, id_tag)) WITHOUT ROWID;
INSERT INTO "training_record" VALUES('columns:0f1e2d3c4b5a6978',X'74747474747474747474747474747474');
CREATE TABLE true_label (
    source TEXT NOT NULL,
    key_id TEXT NOT NULL,
    id_tag BLOB NOT NULL,
    label_tag BLOB NOT NULL,
    PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID;
INSERT INTO "true_label" VALUES(
    'experiment/breast_guest/y','f3864a7c1b0fa807',X'86E527394E6F7AA0E7049C6EF47FEC1F',
    X'EE6304F58B2CA0742ECEEFB9408E50E6');
INSERT INTO "true_label" VALUES(
    'experiment/breast_guest/y','f3864a7c1b0fa807',X'EC271738AECD55BB195C810431F88125',
    X'DC399E76AA6BCA6710DB60BFB6128F78');
INSERT INTO "true_label" VALUES(
    'experiment/breast_guest/y','fc06c80c8a35a971',X'9B5C230152FE4E29047D71FC4F179D8B',
    X'B573698640EEA0FA83933503E8CA7FB6');
INSERT INTO "true_label" VALUES(
    'experiment/breast_guest/y','fc06c80c8a35a971',X'9D2CDE0902D56DCAF4D552FD0676A722',
    X'4E20381114F9D0F1AB579EF4931B2F83');
INSERT INTO "true_label" VALUES(
    'experiment/breast_guest/y','fc06c80c8a35a971',X'E27DF772EF69FD261A6DD622B8460619',
    X'057FDEFA62B75BE0A00F751DD7788039');
INSERT INTO "true_label" VALUES(
    'experiment/breast_guest/y','fc06c80c8a35a971',X'F9364E521D626A6954C4751B8676429D',
    X'8EB44B3FED4250512400728F833C6C53');
CREATE INDEX release_of_entry ON release (entry_id, fingerprint);
CREATE UNIQUE INDEX entry_of_event ON entry (subject, event, purpose) WHERE epsilon IS NULL;
CREATE INDEX release_of_job ON release (job_id);
