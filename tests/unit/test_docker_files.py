"""The files that need an engine, read without one: what they copy exists, nothing floats, nothing is open or secret."""

import http.client
import os
import re
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from flow_double import flow_double

from fate_dp.deploy.docker.configure import DATABASE, PROJECT
from fate_dp.deploy.flow.programs import free_port, wait_until

FOLDER = Path(__file__).parents[2] / "deploy" / "docker"
ROOT = FOLDER.parents[1]
PARTS = ("privacy", "crypto", "components", "attacks", "pipelines", "conf", "data_prep", "deploy", "testing")
PARTIES = ("guest", "host", "arbiter")
SCRIPTS = ("install.sh", "start.sh", "secrets.sh", "tunnel.sh")
FLOW = "/data/projects/fate/fate_flow"


def instructions(text):
    """(instruction, its words as one text) of a Dockerfile, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [tuple(line.split(None, 1)) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def faults_of_dockerfile(text, root):
    """What is wrong with a Dockerfile, in words."""
    faults, found = [], instructions(text)
    stages = {words.split()[2] for name, words in found if name == "FROM" and " AS " in words}
    for name, words in found:
        if name == "FROM" and words.split()[0] not in stages:
            faults += [] if pinned(words.split()[0]) else [f"{words} is not pinned"]
        if name == "ADD":
            faults.append(f"ADD {words}")
        if name == "COPY" and "--from=" not in words:
            faults += [f"{source} does not exist" for source in words.split()[:-1] if not (root / source).exists()]
    final = found[max(index for index, (name, _) in enumerate(found) if name == "FROM") :]
    users = [words for name, words in final if name == "USER"]
    faults += [] if users and users[-1] not in ("root", "0") else ["it runs as root"]
    faults += [f"there is no {name}" for name in ("HEALTHCHECK", "ENTRYPOINT") if name not in dict(final)]
    return faults


def pinned(image):
    """Whether a reference has a tag of at least three numbers, or a digest."""
    return re.fullmatch(r"[\w./-]+(:v?\d+\.\d+\.\d+[\w.-]*|@sha256:[0-9a-f]{64})", image) is not None


def faults_of_compose(document, folder):
    """What is wrong with a compose file, in words."""
    faults = []
    for name, service in document["services"].items():
        if "image" in service and not service["image"].startswith("fate-dp:") and not pinned(service["image"]):
            faults.append(f"{name}: {service['image']} is not pinned")
        ports = [str(port) for port in service.get("ports", ())]
        faults += [f"{name}: {port} is open" for port in ports if not port.startswith("127.0.0.1:")]
        faults += [f"{name}: {key} is given" for key in ("privileged", "pid", "ipc", "devices") if key in service]
        faults += [f"{name}: host network"] if service.get("network_mode") == "host" else []
        for variable, value in (service.get("environment") or {}).items():
            if re.search("password|secret|token|key", variable, re.IGNORECASE) and not variable.endswith("_FILE"):
                faults.append(f"{name}: {variable}={value} stands in the file")
        volumes = [str(volume) for volume in service.get("volumes", ())]
        faults += [f"{name}: {volume} of the machine" for volume in volumes if volume[0] in "./~"]
    for kind in ("configs", "secrets"):
        for name, entry in (document.get(kind) or {}).items():
            file = entry["file"]
            right = file.startswith("./secrets/") if kind == "secrets" else (folder / file).is_file()
            faults += [] if right else [f"{kind}: {name} is {entry['file']}"]
    return faults


def loaded(name):
    return yaml.safe_load((FOLDER / name).read_text())


def test_the_dockerfile_has_no_fault_and_copies_every_part():
    text = (FOLDER / "Dockerfile").read_text()
    assert faults_of_dockerfile(text, ROOT) == []
    assert ("FROM", "federatedai/standalone_fate:2.2.0") in instructions(text)
    copied = {source for name, words in instructions(text) if name == "COPY" for source in words.split()[:-1]}
    assert set(PARTS) <= copied


@pytest.mark.parametrize(
    "wrong, told",
    [
        ("FROM fate:latest\nUSER fate\nHEALTHCHECK CMD x\nENTRYPOINT x\n", "fate:latest is not pinned"),
        ("FROM fate\nUSER fate\nHEALTHCHECK CMD x\nENTRYPOINT x\n", "fate is not pinned"),
        ("FROM fate:2.2.0\nADD https://example.org/x /x\nUSER fate\nHEALTHCHECK CMD x\nENTRYPOINT x\n", "ADD https"),
        (
            "FROM fate:2.2.0\nCOPY nowhere \\\n /x\nUSER fate\nHEALTHCHECK CMD x\nENTRYPOINT x\n",
            "nowhere does not exist",
        ),
        ("FROM fate:2.2.0\nUSER fate\nUSER root\nHEALTHCHECK CMD x\nENTRYPOINT x\n", "it runs as root"),
        (
            "FROM fate:2.2.0 AS a\nUSER fate\nHEALTHCHECK CMD x\nENTRYPOINT x\nFROM fate:2.2.0\nENTRYPOINT x\n",
            "as root",
        ),
        ("FROM fate:2.2.0\nUSER fate\n#HEALTHCHECK CMD x\nENTRYPOINT x\n", "there is no HEALTHCHECK"),
    ],
    ids=["latest", "no tag", "ADD", "COPY", "root", "stage", "health"],
)
def test_the_faults_of_a_dockerfile_are_seen(wrong, told):
    assert any(told in fault for fault in faults_of_dockerfile(wrong, ROOT))


@pytest.mark.parametrize("name", ["compose.yaml", "compose.tls.yaml"])
def test_the_compose_files_have_no_fault(name):
    assert faults_of_compose(loaded(name), FOLDER) == []


@pytest.mark.parametrize(
    "service, told",
    [
        ({"image": "nginx:latest"}, "nginx:latest is not pinned"),
        ({"ports": ["9380:9380"]}, "9380:9380 is open"),
        ({"ports": ["0.0.0.0:9380:9380"]}, "is open"),
        ({"environment": {"BROKER_PASSWORD": "fate"}}, "stands in the file"),
        ({"volumes": ["/root:/root"]}, "of the machine"),
        ({"network_mode": "host"}, "host network"),
        ({"privileged": True}, "privileged is given"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_the_faults_of_a_compose_file_are_seen(service, told):
    assert any(told in fault for fault in faults_of_compose({"services": {"one": service}}, FOLDER))


def test_a_secret_or_configuration_elsewhere_is_seen():
    document = {"services": {}, "secrets": {"a": {"file": "./broker.conf"}}, "configs": {"b": {"file": "./nowhere"}}}
    assert faults_of_compose(document, FOLDER) == ["configs: b is ./nowhere", "secrets: a is ./broker.conf"]


def test_the_parties_share_no_volume_no_port_and_no_board_password():
    document = loaded("compose.yaml")
    parties = [document["services"][party] for party in PARTIES]
    volumes = [volume.split(":")[0] for party in parties for volume in party["volumes"]]
    assert len(set(volumes)) == len(volumes) and set(volumes) == set(document["volumes"])
    assert all(any(volume.endswith(":/var/lib/fate-dp") for volume in party["volumes"]) for party in parties)
    ports = [port.split(":")[1] for party in parties for port in party["ports"]]
    assert len(set(ports)) == len(ports) == 6
    passwords = [secret["source"] for party in parties for secret in party["secrets"] if isinstance(secret, dict)]
    assert len(set(passwords)) == 3


def test_all_that_a_fate_flow_keeps_outlives_its_container():
    """FATE-Flow's own names of folders, and our place of its database, each in a volume that install.sh prepares."""
    from fate_flow.runtime import system_settings as flow

    kept = (flow.LOG_DIR, flow.JOB_DIR, flow.MODEL_STORE_PATH, flow.STANDALONE_DATA_HOME, flow.LOCALFS_DATA_HOME)
    expected = {f"{FLOW}/{Path(folder).name}" for folder in kept} | {str(Path(PROJECT) / DATABASE.parent)}
    document = loaded("compose.yaml")
    for party in PARTIES:
        mounted = {volume.split(":")[1] for volume in document["services"][party]["volumes"]}
        assert mounted == expected | {"/var/lib/fate-dp"}
    (prepared,) = re.findall(r'"\$project"/fate_flow/\{([\w,]+)\}', (FOLDER / "install.sh").read_text())
    assert {f"{FLOW}/{name}" for name in prepared.split(",")} == expected


def test_no_party_reaches_anothers_server_but_by_the_router():
    services = loaded("compose.yaml")["services"]
    networks = [set(services[party]["networks"]) for party in PARTIES]
    assert len(set.union(*networks)) == sum(map(len, networks)) == len(PARTIES)
    assert set(services["router"]["networks"]) == set(services["broker"]["networks"]) == set.union(*networks)


def test_every_variable_is_read_and_every_party_has_a_route():
    document = loaded("compose.yaml")
    source = "".join(path.read_text() for path in (*FOLDER.glob("*.py"), *FOLDER.glob("*.sh")))
    routes = dict(re.findall(r"^ +(\d+) (\w+):9380;", (FOLDER / "router.conf").read_text(), re.MULTILINE))
    for party in PARTIES:
        environment = document["services"][party]["environment"]
        assert all(variable in source for variable in environment)
        hostname = document["services"][party]["hostname"]
        assert routes[environment["FATE_DP_PARTY"]] == environment["FATE_DP_HOST"] == hostname
    assert len(routes) == len(PARTIES)


def test_the_tls_file_only_adds_to_services_that_exist():
    plain, tls = loaded("compose.yaml"), loaded("compose.tls.yaml")
    assert set(plain["services"]) & set(tls["services"]) == {*PARTIES, "broker"}
    for party in PARTIES:
        tunnel = tls["services"][f"{party}-tunnel"]
        # Found by its name, whoever starts anew; nobody else is where it takes messages in clear.
        assert tunnel["networks"][f"{party}-inside"]["aliases"] == [
            tls["services"][party]["environment"]["FATE_DP_BROKER"]
        ]
        inside = [name for name, service in tls["services"].items() if f"{party}-inside" in service.get("networks", ())]
        assert inside == [party, f"{party}-tunnel"] and tls["networks"][f"{party}-inside"] == {"internal": True}
        assert not any("network_mode" in service for service in tls["services"].values())
    lines = (FOLDER / "broker.tls.conf").read_text().splitlines()
    assert "listeners.tcp = none" in lines and "ssl_options.fail_if_no_peer_cert = true" in lines


def test_nothing_secret_is_sent_to_the_engine_or_committed():
    # An engine without BuildKit reads no other place.
    assert "deploy/docker/secrets" in (ROOT / ".dockerignore").read_text().splitlines()
    (told,) = [
        words for name, words in instructions((FOLDER / "Dockerfile").read_text()) if "deploy/docker/secrets" in words
    ]
    assert told.startswith("if [ -e deploy/docker/secrets ]; then echo")
    assert (FOLDER / ".gitignore").read_text() == "secrets/\n"


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_scripts_parse_and_stop_at_the_first_failure(name):
    script = FOLDER / name
    assert subprocess.run(["bash", "-n", str(script)], capture_output=True, timeout=300).stderr == b""
    assert "set -euo pipefail" in script.read_text() and script.stat().st_mode & 0o100


def test_the_scripts_are_all_that_there_are():
    assert {path.name for path in FOLDER.glob("*.sh")} == set(SCRIPTS)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_secrets_are_private_made_once_and_an_unknown_option_is_refused(tmp_path):
    script = shutil.copy(FOLDER / "secrets.sh", tmp_path)
    assert subprocess.run(["bash", script], timeout=300, capture_output=True).returncode == 0
    made = {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()} == {0o600}
    expected = {Path(entry["file"]).name for entry in loaded("compose.yaml")["secrets"].values()}
    assert set(made) == expected and made["broker_password"].strip() in made["broker_account.conf"]
    subprocess.run(["bash", script], timeout=300, check=True, capture_output=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "secrets").iterdir()} == made
    refused = subprocess.run(["bash", script, "--ssl"], timeout=300, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr == "secrets.sh: '--ssl' is not an option; there is --tls.\n"


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_the_router_hands_on_what_parties_ask_each_other_and_nothing_else(tmp_path):
    """A FATE-Flow asks nobody for a signature at /v2/worker/, and a known client may read its configuration."""
    text = (FOLDER / "router.conf").read_text().replace("/tmp/", f"{tmp_path}/")
    port = free_port()
    with flow_double({"partner/job/create": "done", "scheduler/task/report": "done"}) as (address, asked):
        text = text.replace("guest:9380", f"127.0.0.1:{address.port}").replace("9300", f"127.0.0.1:{port}")
        with running_nginx(tmp_path / "router.conf", text, port):
            assert status(port, "/v2/partner/job/create") == status(port, "/v2/scheduler/task/report") == 200
            assert status(port, "/v2/partner/job/create", party="1") == 404
            assert [status(port, path) for path in NOT_FOR_OTHERS] == [403] * len(NOT_FOR_OTHERS)
            assert status(port, "/router") == 200
        assert [path for path, _, _ in asked] == ["partner/job/create", "scheduler/task/report"]


NOT_FOR_OTHERS = (
    "/v2/worker/model/download",
    "/v2/partner/../worker/model/download",
    "/v2/partner/%2e%2e/worker/task/status",
    "//v2//worker/task/status",
    "/v2/server/query/all",
    "/v2/partnerships",
    "/v2/client/client/create",
    "/v1/interconn/x",
    "/",
)


def status(port, path, party="9999"):
    """What the router at a port answers to a command for a party; the path is sent as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body="{}", headers={"dest-party-id": party})
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def running_nginx(configuration, text, port):
    """An nginx that answers at a port, ended afterwards."""
    # Started by root, nginx would give its worker to an account that cannot enter this folder.
    configuration.write_text(("user root;\n" if os.geteuid() == 0 else "") + text)
    program = ["nginx", "-g", "daemon off;", "-c", str(configuration)]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    try:
        assert wait_until(lambda: listens(port), lambda: process.poll() is None, 120.0), process.stderr.read()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def has_streams():
    """Whether an nginx is here, and Debian's file that loads its stream module."""
    return shutil.which("nginx") is not None and any(Path("/etc/nginx/modules-enabled").glob("*stream*.conf"))


@pytest.fixture
def certificates(tmp_path):
    """A folder with the files of a party that the tunnel shows and believes."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    program = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=guest",
        "-keyout",
        "guest.key",
        "-out",
        "guest.pem",
    ]
    subprocess.run(program, cwd=folder, check=True, timeout=300, capture_output=True)
    shutil.copy(folder / "guest.pem", folder / "ca.pem")
    return folder


def assert_nginx_takes(configuration):
    checked = subprocess.run(["nginx", "-t", "-c", str(configuration)], capture_output=True, text=True, timeout=300)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(not (has_streams() and shutil.which("openssl")), reason="needs nginx with streams and openssl")
def test_nginx_takes_the_containers_tunnel_and_that_of_a_machine(certificates):
    text = (FOLDER / "tunnel.conf").read_text().replace("/tmp/", f"{certificates}/").replace("tunnel:", "127.0.0.1:")
    text = text.replace("/run/secrets/party", f"{certificates}/guest").replace("/run/secrets", str(certificates))
    (certificates / "container.conf").write_text(text)
    assert_nginx_takes(certificates / "container.conf")
    made = tunnel("192.0.2.7", "guest", certificates, "broker")
    assert made.returncode == 0, made.stderr
    (certificates / "tunnel.conf").write_text(made.stdout)
    assert_nginx_takes(certificates / "tunnel.conf")


def tunnel(*arguments):
    program = ["bash", str(FOLDER / "tunnel.sh"), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=300)


def test_the_tunnel_of_a_machine_has_its_names_and_none_of_the_engines(tmp_path):
    for name in ("ca.pem", "host.pem", "host.key"):
        (tmp_path / name).touch()
    text = tunnel("broker.example.org", "host", tmp_path).stdout
    assert not [
        name for name in ("/run/secrets", "127.0.0.11", "$", "/tmp/nginx.pid", " broker;", "tunnel:") if name in text
    ]
    for line in (
        f"proxy_ssl_certificate_key {tmp_path}/host.key;",
        f"proxy_ssl_trusted_certificate {tmp_path}/ca.pem;",
        "proxy_ssl_name broker.example.org;",
        "proxy_ssl_verify on;",
        "server { listen 127.0.0.1:15672; proxy_pass broker.example.org:15671; }",
    ):
        assert line in [found.strip() for found in text.splitlines()]
    assert "proxy_ssl_name broker;" in tunnel("192.0.2.7", "host", tmp_path, "broker").stdout


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["broker"], "give BROKER PARTY FOLDER [CERTIFIED]; 1 arguments were given."),
        (["a;b", "guest", "/"], "'a;b' is not a name"),
        (["broker", "", "/"], "'' is not a name"),
        (["broker", "guest", "here"], "the folder 'here' must begin with '/'."),
        (["broker", "guest", "/a b"], "the folder '/a b' may have letters"),
        (["broker", "guest", "/nowhere"], "/nowhere/ca.pem does not exist"),
    ],
    ids=["few", "name", "empty", "relative", "folder", "missing"],
)
def test_what_the_tunnel_cannot_be_made_of_is_refused_in_one_sentence(arguments, told):
    made = tunnel(*arguments)
    assert made.returncode == 1 and told in made.stderr and made.stderr.count("\n") == 1 and made.stdout == ""
