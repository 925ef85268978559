"""The recipe and one container without a broker: built, hardened, run to a finished private job, and broken."""

import json
import time

import pytest

from fate_dp.deploy.doctor.probe import FATE_PINS

from .engine import ROOT
from .standins import NAMES, OURS

START = "/opt/fate-dp/start.sh"
HARDENED = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
FLOW = "/data/projects/fate/fate_flow"
KEPT = [f"{FLOW}/{name}" for name in ("conf", "database", "data", "localfs", "model", "jobs", "logs")]


@pytest.fixture(scope="module")
def start(engine, built):
    """Start a container of a name with some options; all are removed at the end."""
    names = []

    def started(name, *options, ready=True):
        names.append(name)
        engine.docker("run", "--detach", "--name", name, "--health-interval=5s", *HARDENED, *options, OURS)
        if ready:
            engine.wait_for_health(name)
        return name

    yield started
    if names:
        engine.docker("rm", "--force", "--volumes", *names)


def inside(engine, name, *words, check=True, user=None):
    options = ["--user", user] if user else []
    return engine.docker("exec", *options, name, START, *words, check=check)


def findings(engine, name):
    """What the doctor of a container finds, by check."""
    told = json.loads(inside(engine, name, "fate-dp", "doctor", "--json", check=False).stdout)
    return {each["check"]: each for each in told["findings"]}


def versions(engine, image):
    """What is installed in an image of the packages that FATE pins."""
    program = (
        "import json; from importlib.metadata import version; "
        f"print(json.dumps({{name: version(name) for name in {sorted(FATE_PINS)!r}}}))"
    )
    python = "source /data/projects/fate/bin/init_env.sh; python -c"
    return json.loads(
        engine.docker("run", "--rm", "--entrypoint", "bash", image, "-c", f'{python} "$0"', program).stdout
    )


def test_the_recipe_builds_and_moves_no_package_that_fate_pins(engine, built):
    assert "FATE-DP is installed." in built
    number = len(list((ROOT / "components").glob("*/component.py")))
    assert f"{number} of {number} descriptions written" in built
    before, after = versions(engine, NAMES["fate"]), versions(engine, OURS)
    assert after == before
    assert after["typing-extensions"] == FATE_PINS["typing-extensions"]
    assert engine.inspect(OURS)["Config"]["User"] == "fate"


def test_no_secret_is_sent_to_an_engine_that_builds_with_or_without_buildkit(engine, built, source):
    """The tree that was built from has keys of an authority, of the broker and of all parties."""
    assert (source / "deploy/docker/secrets/ca.key").is_file()
    options = ["--network=host", "--target", "wheel", "--file", source / "deploy/docker/Dockerfile", source]
    engine.docker("build", "--tag", "fate-dp-test/wheel", *options)
    engine.docker("build", "--tag", "fate-dp-test/wheel-old", *options, legacy=True)
    for image in ("fate-dp-test/wheel", "fate-dp-test/wheel-old"):
        listed = engine.docker("run", "--rm", image, "find", "/source", "-name", "secrets*").stdout.split()
        assert listed == ["/source/deploy/docker/secrets.sh"]
    (source / ".dockerignore").rename(source / "ignored")
    try:
        refused = engine.docker("build", "--force-rm", *options, legacy=True, check=False)
    finally:
        (source / "ignored").rename(source / ".dockerignore")
        engine.docker("rmi", "--force", "fate-dp-test/wheel", "fate-dp-test/wheel-old")
    assert refused.returncode != 0
    assert "Secrets were sent to the engine" in refused.stdout + refused.stderr


def test_three_commands_lead_to_a_finished_private_job(engine, built, start):
    """As the guide has them: the build, a container, and the demo at once, while FATE-Flow still starts."""
    name = start("fate-dp-demo", ready=False)
    begun = time.monotonic()
    told = inside(engine, name, "fate-dp", "demo", check=True)
    assert "FATE-Flow is still starting." in told.stderr
    result = json.loads(engine.docker("exec", name, "cat", "/home/fate/out/demo/result.json").stdout)
    assert result["fate_version"] == "2.2.0"
    assert result["models"]["private"]["epsilon"] == 2.0
    assert result["models"]["private"]["metrics"]["auc"] > 0.8
    ledger = json.loads(inside(engine, name, "fate-dp", "ledger", "--json").stdout)
    counted = [entry for entry in ledger["party 9999"]["entries"] if entry["counted"]]
    assert [(entry["source"], entry["epsilon"]) for entry in counted] == [("fate_dp_demo/guest_train/y", 2.0)]
    assert engine.health(name) == "healthy"
    print(f"demo: {time.monotonic() - begun:.0f} s")


def test_the_doctor_is_content_and_finds_what_is_seeded(engine, start):
    name = start("fate-dp-doctor")
    found = findings(engine, name)
    assert found["FATE-Flow"]["state"] == "ok"
    assert found["FATE's pins"]["state"] == "ok"
    assert found["client's token"]["state"] == "ok"
    assert found["fence"]["state"] == "ok"
    assert [check for check, each in found.items() if each["state"] == "problem"] == []
    packages = "/data/projects/fate/env/python/venv/lib/python3.11/site-packages"
    for command in (
        f"sed -i 's/^Version: 4.8.0/Version: 4.16.0/' {packages}/typing_extensions-4.8.0.dist-info/METADATA",
        "sed -i 's/app_token:.*/app_token: secret/' /var/lib/fate-dp/client.yaml; chmod 644 /var/lib/fate-dp/client.yaml",
        f"sed -i s/2.2.0/2.1.0/ {FLOW}/fateflow.env",
    ):
        engine.docker("exec", "--user", "root" if "site-packages" in command else "fate", name, "sh", "-c", command)
    engine.docker("restart", name)
    engine.wait_for_health(name)
    found = findings(engine, name)
    assert "typing-extensions is 4.16.0 and not 4.8.0" in found["FATE's pins"]["said"]
    assert found["client's token"]["state"] == "problem"
    assert "has mode 0644" in found["client's token"]["said"]
    assert "fateflow.env says 2.1.0" in found["FATE-Flow"]["said"]
    assert found["FATE-Flow"]["state"] == "ok"


def test_a_token_outlives_the_container_and_is_its_users_alone(engine, start):
    options = ["--env", "FATE_DP_CLIENT_AUTHENTICATION=on", "--env", "FATE_DP_PARTY=9999", "--hostname", "guest"]
    options += ["--volume", "signed-keys:/var/lib/fate-dp", "--volume", f"signed-database:{FLOW}/database"]
    name = start("fate-dp-signed", *options)
    refused = inside(engine, name, "fate-dp", "upload", "/etc/passwd", "a/b", check=False)
    assert "authenticates clients and refuses this one" in refused.stderr
    init = "flow init --ip guest --port 9380 --app-id admin --app-token $(cat /var/lib/fate-dp/administrator.key)"
    inside(engine, name, "sh", "-c", init)
    told = inside(engine, name, "flow", "client", "create-client", "--app-name", "analyst").stdout
    assert "app_token" in told
    assert engine.docker("exec", name, "stat", "-c", "%a %U", "/var/lib/fate-dp/client.yaml").stdout == "600 fate\n"
    engine.docker("rm", "--force", name)
    start(name, *options)
    assert findings(engine, name)["FATE-Flow"]["state"] == "ok"
    engine.docker("rm", "--force", name)
    engine.docker("volume", "rm", "signed-keys", "signed-database")


def test_a_root_that_is_read_only_and_no_capability(engine, start):
    places = [*KEPT, "/data/projects/fate/fateboard/conf", "/home/fate"]
    name = start(
        "fate-dp-fixed",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        f"{FLOW}/temps:uid=10001,mode=0700",
        *(word for place in places for word in ("--volume", place)),
    )
    status = engine.docker("exec", name, "grep", "-E", "^(CapEff|NoNewPrivs|Seccomp):", "/proc/self/status").stdout
    assert status.split() == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert engine.docker("exec", name, "touch", "/opt/fate-dp/x", check=False).returncode != 0
    table = "id,y,x\\n" + "\\n".join(f"r{row},{row % 2},{row}.5" for row in range(8))
    engine.docker("exec", name, "sh", "-c", f"printf '{table}\\n' > /home/fate/a.csv")
    told = inside(engine, name, "fate-dp", "upload", "a.csv", "bank/loans", "--label", "y")
    assert "Uploaded a.csv as bank/loans." in told.stdout


def test_a_full_volume_is_found_and_nothing_is_declared_on_it(engine, start):
    place = ["type=tmpfs", "device=tmpfs", "o=size=1m,uid=10001,mode=0700"]
    engine.docker("volume", "create", "small", *(word for each in place for word in ("--opt", each)))
    name = start("fate-dp-full", "--volume", "small:/var/lib/fate-dp")
    engine.docker("exec", name, "sh", "-c", "cat /dev/zero > /var/lib/fate-dp/filling", check=False)
    found = findings(engine, name)
    assert found["disk"]["state"] == "problem"
    assert "less than 64 MiB" in found["disk"]["said"]
    refused = inside(engine, name, "fate-dp", "declare", "bank/loans/y", "--cap", "1", check=False)
    assert refused.returncode != 0
    engine.docker("rm", "--force", "--volumes", name)
    engine.docker("volume", "rm", "small")
