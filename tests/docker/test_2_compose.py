"""Three parties under compose: a job from upload to ledger, isolation, TLS, and what starts anew."""

import http.client
import socket
import ssl
import time

import pytest

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.server import ANSWERS, state_of
from tests.cluster.searching import found_in, private_values
from tests.cluster.small_jobs import small_tables

from .parties import PARTIES, Parties
from .standins import NAMES, OURS, build_ours

PLAIN, TLS = ("compose.yaml",), ("compose.yaml", "compose.tls.yaml")


@pytest.fixture(scope="module")
def parties(engine, built, source):
    found = Parties(engine, source)
    found.use(*PLAIN)
    found.up()
    yield found
    found.compose("down", "--volumes")
    assert not [name for party in PARTIES for name in found.volumes(party)]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A file of each side, long numbers in all columns."""
    folder = tmp_path_factory.mktemp("tables")
    for name, table in zip(("guest", "host"), small_tables(), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)
        (folder / f"{name}.csv").chmod(0o644)
    return {name: folder / f"{name}.csv" for name in ("guest", "host")}


@pytest.fixture(scope="module")
def trained(parties, tables, source):
    """The guide's commands, from the files to a finished job."""
    assert "Uploaded guest.csv" in parties.upload("guest", tables["guest"], "loans", "--label", "y")
    assert "Uploaded host.csv" in parties.upload("host", tables["host"], "features")
    parties.inside("guest", "fate-dp", "declare", "bank/loans/y", "--cap", "8")
    job, status = parties.job(source, guest="loans", host="features")
    assert status == "success"
    return job


def test_a_job_over_three_parties_charges_each_ledger(parties, trained):
    (entry,) = parties.ledger("guest")
    assert entry["epsilon"] == 2.0
    assert entry["source"] == "bank/loans/y"
    assert len(parties.ledger("host")) == 1
    assert parties.ledger("arbiter") == []


def test_the_doctor_of_each_party_says_that_messages_are_in_clear_and_nothing_else(parties, trained):
    for party in PARTIES:
        problems = [check for check, each in parties.findings(party).items() if each["state"] == "problem"]
        assert problems == ["broker's reach"]


def test_the_doctor_finds_a_party_without_a_client_of_the_broker(parties):
    """FATE-Flow starts and takes jobs, and each of their tasks fails."""
    packages = "/data/projects/fate/env/python/venv/lib/python3.11/site-packages"
    record, away = f"{packages}/pika-1.2.1.dist-info", f"{packages}/pika.away"
    as_root = ("exec", "--no-TTY", "--user", "root", "arbiter")
    parties.compose(*as_root, "mv", record, away)
    found = parties.findings("arbiter")["broker's client"]
    parties.compose(*as_root, "mv", away, record)
    assert found["state"] == "problem"
    assert "lacks pika" in found["said"]
    assert parties.findings("arbiter")["broker's client"]["state"] == "ok"


def test_a_party_reaches_another_by_the_router_only(parties):
    resolved = parties.inside("guest", "python", "-c", "import socket; socket.gethostbyname('host')", check=False)
    assert resolved.returncode != 0
    ask = (
        "import urllib.request as u, sys\n"
        "request = u.Request('http://router:9300' + sys.argv[1], data=b'{}', headers={'dest-party-id': '10000'})\n"
        "try: print(u.urlopen(request).status)\n"
        "except u.HTTPError as error: print(error.code)\n"
    )
    for path, status in (
        ("/v2/partner/job/create", "200"),
        ("/v2/worker/task/status", "403"),
        ("/v2/server/query/all", "403"),
    ):
        assert parties.inside("guest", "python", "-c", ask, path).stdout.strip() == status


def test_no_volume_has_anothers_values_and_no_image_a_secret(engine, parties, trained, tables, source):
    for owner, other in (("guest", "host"), ("host", "guest")):
        private = private_values([tables[owner]], [tables[other]], "id", "y")
        assert len(private) > 900
        own = {name for folder in parties.volumes(owner).values() for name in found_in(folder, private)}
        assert len(own) > 900, "the search finds what is there"
        for party in set(PARTIES) - {owner}:
            for folder in parties.volumes(party).values():
                assert found_in(folder, private) == {}
    secrets = [
        path.read_bytes().strip() for path in (source / "deploy/docker/secrets").iterdir() if path.suffix != ".pem"
    ]
    keys = {party: (parties.volumes(party)[f"fate-dp_{party}-keys"] / "parties").rglob("flip.key") for party in PARTIES}
    secrets += [path.read_bytes() for found in keys.values() for path in found]
    assert len(secrets) > 8
    files = [path for folder in own_layers(engine) for path in folder.rglob("*")]
    files = [path for path in files if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000
    assert [path for path in files if any(secret in path.read_bytes() for secret in secrets)] == []
    history = engine.docker("history", "--no-trunc", OURS).stdout.encode()
    assert not [secret for secret in secrets if secret in history]


def own_layers(engine):
    """The folders of the image's layers that its base has not."""
    from pathlib import Path

    def layers(image):
        data = engine.inspect(image)["GraphDriver"]["Data"]
        return {folder for key in ("UpperDir", "LowerDir") for folder in data.get(key, "").split(":") if folder}

    return [Path(folder) for folder in sorted(layers(OURS) - layers(NAMES["fate"]))]


def test_a_backup_is_copied_out_and_restored(parties, trained, tmp_path):
    parties.inside("guest", "fate-dp", "backup", "/var/lib/fate-dp/backups", "--home", "/var/lib/fate-dp")
    parties.compose("cp", "guest:/var/lib/fate-dp/backups", tmp_path / "backups")
    (kept,) = (tmp_path / "backups").glob("party-9999-*")
    assert {path.name for path in kept.iterdir()} >= {"flip.key", "ledger.sqlite", "policy.yaml"}
    place = "/var/lib/fate-dp/parties/party-9999"
    parties.inside("guest", "sh", "-c", f"printf damaged > {place}/ledger.sqlite")
    assert parties.findings("guest")["ledger of party 9999"]["state"] == "problem"
    parties.inside(
        "guest",
        "sh",
        "-c",
        f"cp -p /var/lib/fate-dp/backups/party-9999-*/* {place}/; rm -f {place}/*-wal {place}/*-shm",
    )
    assert parties.findings("guest")["ledger of party 9999"]["state"] == "ok"
    assert [entry["epsilon"] for entry in parties.ledger("guest")] == [2.0]


def test_a_killed_server_is_started_again(engine, parties, trained, source):
    kill_server(engine, parties, "host")
    job, status = parties.job(source, guest="loans", host="features")
    assert status == "success"
    assert [entry["epsilon"] for entry in parties.ledger("guest")] == [2.0], "flips are memoised"


def kill_server(engine, parties, party):
    """Kill a party's FATE-Flow and wait until the engine has started its container again."""
    name = parties.name(party)
    before = engine.inspect(name)["RestartCount"]
    engine.docker("exec", name, "pkill", "-9", "-f", "fate_flow_server.py")
    deadline = time.monotonic() + 180
    while engine.inspect(name)["RestartCount"] == before:
        assert time.monotonic() < deadline, "the container did not end with its server"
        time.sleep(2)
    engine.wait_for_health(name)


@pytest.fixture(scope="module")
def secured(parties, trained):
    """The same volumes, with TLS to the broker."""
    parties.compose("down")
    parties.use(*TLS)
    parties.up()
    return parties


def test_tls_runs_a_job_and_the_doctor_is_content(secured, source):
    assert secured.job(source, guest="loans", host="features")[1] == "success"
    for party in PARTIES:
        found = secured.findings(party)
        assert [check for check, each in found.items() if each["state"] == "problem"] == []
        assert "the tunnel of this party" in found["broker's reach"]["said"]
    assert [entry["epsilon"] for entry in secured.ledger("guest")] == [2.0]


def test_a_party_answers_by_each_of_its_addresses(engine, secured):
    """It is on two networks here, and its name stands for either address first: the router comes by one of them."""
    for party in PARTIES:
        networks = engine.inspect(secured.name(party))["NetworkSettings"]["Networks"]
        assert set(networks) == {f"fate-dp_{party}-side", f"fate-dp_{party}-inside"}
        for network in networks.values():
            assert state_of(FlowAddress(network["IPAddress"], 9380)).state == ANSWERS


def test_the_broker_lets_in_parties_with_a_certificate_only(engine, secured, source):
    networks = engine.inspect(secured.name("broker"))["NetworkSettings"]["Networks"]
    address = networks["fate-dp_guest-side"]["IPAddress"]
    for port in (5672, 15672):
        with pytest.raises(OSError):
            socket.create_connection((address, port), 3)
    folder = source / "deploy/docker/secrets"
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        management(context, address)
    context.load_cert_chain(folder / "guest.pem", folder / "guest.key")
    assert management(context, address) == 401


def management(context, address):
    """What the broker's management answers to a client without a password; the certificate names `broker`."""
    with socket.create_connection((address, 15671), 10) as plain:
        with context.wrap_socket(plain, server_hostname="broker") as tunnel:
            tunnel.sendall(b"GET /api/whoami HTTP/1.0\r\nHost: broker\r\n\r\n")
            answer = tunnel.recv(100)
    if not answer:
        raise ConnectionError("closed")
    return int(answer.split()[1])


def test_others_on_a_partys_network_do_not_reach_its_tunnel(engine, secured):
    """The tunnel shows the party's certificate to the broker for whoever it takes connections from."""
    networks = engine.inspect(secured.name("guest-tunnel"))["NetworkSettings"]["Networks"]
    assert set(networks) == {"fate-dp_guest-side", "fate-dp_guest-inside"}
    with pytest.raises(OSError):
        socket.create_connection((networks["fate-dp_guest-side"]["IPAddress"], 5672), 3)
    socket.create_connection((networks["fate-dp_guest-inside"]["IPAddress"], 5672), 3).close()


def test_under_tls_whoever_starts_anew_finds_its_broker_again(engine, secured, source):
    """A killed server, a party that is stopped and started as for a backup, and a tunnel alone."""
    kill_server(engine, secured, "arbiter")
    secured.compose("stop", "guest")
    secured.compose("cp", "guest:/data/projects/fate/fate_flow/database", secured.folder / "guest-database")
    assert (secured.folder / "guest-database/fate_flow_sqlite.db").is_file()
    secured.compose("start", "guest")
    secured.compose("restart", "host-tunnel")
    for party in PARTIES:
        engine.wait_for_health(secured.name(party))
        assert secured.findings(party)["broker"]["state"] == "ok"
    assert secured.job(source, guest="loans", host="features")[1] == "success"


def test_without_its_broker_a_party_is_unhealthy_and_the_doctor_says_why(engine, secured):
    secured.compose("stop", "broker")
    engine.wait_for_health(secured.name("guest"), "unhealthy")
    assert (
        "The broker does not answer at tunnel:5672"
        in engine.state(secured.name("guest"))["Health"]["Log"][-1]["Output"]
    )
    assert secured.findings("guest")["broker"]["state"] == "problem"
    restarts = engine.inspect(secured.name("guest"))["RestartCount"]
    secured.compose("start", "broker")
    engine.wait_for_health(secured.name("guest"))
    assert engine.inspect(secured.name("guest"))["RestartCount"] == restarts


def test_an_upgrade_of_the_wheel_keeps_ledgers_and_tables(engine, secured, source):
    setup = source / "setup.py"
    setup.write_text(setup.read_text().replace('version="0.2.0"', 'version="0.2.1"'))
    build_ours(engine, source)
    secured.up()
    for party in PARTIES:
        assert "FATE-DP 0.2.1" in secured.findings(party)["FATE-DP"]["said"]
    assert [entry["epsilon"] for entry in secured.ledger("guest")] == [2.0]
    assert secured.job(source, guest="loans", host="features")[1] == "success"
