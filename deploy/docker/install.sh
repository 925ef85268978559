#!/usr/bin/env bash
# Adds FATE-DP to a FATE 2.2.0 that is installed in a folder, as in the image federatedai/standalone_fate:2.2.0.
#
#   install.sh WHEEL [--no-requirements]
#
# FATE_PROJECT      folder with fate_flow/, fateboard/ and bin/        (/data/projects/fate)
# FATE_DP_HOME      where the parties' keys, ledgers and policies go   (/var/lib/fate-dp/parties);
#                   the folder above it, which holds the administrator's key, is the user's too
# FATE_DP_USER      user that is to run the servers; kept as it is if this is not run by root
# --no-requirements installs the wheel alone: where all that it needs is there, or where there is no network
#
# Only giving folders to FATE_DP_USER needs root. Every step may be repeated.
set -euo pipefail

project=${FATE_PROJECT:-/data/projects/fate}
home=${FATE_DP_HOME:-/var/lib/fate-dp/parties}
keys=$(dirname "$home")
user=${FATE_DP_USER:-}
wheel=${1:-}
requirements=${2:-}

refuse() {
    echo "install.sh: $*" >&2
    exit 1
}

[ -f "$wheel" ] || refuse "the wheel '$wheel' does not exist; give the file that 'pip wheel --no-deps .' makes."
case "$requirements" in "" | --no-requirements) ;; *) refuse "'$requirements' is not an option; there is --no-requirements." ;; esac
for part in fate_flow/bin/service.sh fate_flow/conf/service_conf.yaml fateboard/service.sh fateboard/dag; do
    [ -e "$project/$part" ] || refuse "$project/$part does not exist; set FATE_PROJECT to the folder of a FATE 2.2.0."
done

[ -z "$user" ] || id "$user" >/dev/null 2>&1 || refuse "there is no user $user; create it first, or leave FATE_DP_USER out."
if [ "$(id -u)" != 0 ]; then user=; fi
# A folder that others use as well, such as / or /var, is not ours to give away.
if [ -n "$user" ] && [ -e "$keys" ] && [ "$(stat -c %u "$keys")" != "$(id -u "$user")" ]; then
    refuse "$keys, the folder above FATE_DP_HOME, does not belong to $user; give it to $user or choose another FATE_DP_HOME."
fi

# What the image's own scripts do before they start anything: its Python and Java.
if [ -f "$project/bin/init_env.sh" ]; then
    set +u
    # shellcheck disable=SC1091
    source "$project/bin/init_env.sh"
    set -u
fi

version=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])') || refuse "there is no python on the PATH."
case "$version" in
    3.10 | 3.11) ;;
    *) refuse "the Python of $project is $version; FATE-DP needs 3.10 or 3.11, so register a provider with a Python of its own: 'fate-dp provider register'." ;;
esac
python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("fate_flow") is None or u.find_spec("fate") is None)' ||
    refuse "the Python on the PATH finds no fate and fate_flow; run this in the environment of $project."

kept_versions=$(mktemp)
trap 'rm -f "$kept_versions"' EXIT
echo "Installing $(basename "$wheel") into $(python -c 'import sys; print(sys.prefix)')."
python -m pip install --disable-pip-version-check --quiet --no-deps --force-reinstall "$wheel"
if [ "$requirements" != --no-requirements ]; then
    # All that the extra fate brings, but FATE itself, which is here without a record.
    needed=$(python -c '
from importlib.metadata import requires
asked = [line.partition(";") for line in requires("fate-dp")]
print("\n".join(name for name, _, when in asked if not when or "\"fate\"" in when and not name.startswith("fate_client")))')
    # FATE requires some packages in one version, and the image has no record by which pip would mind that: what is there
    # of them stays as it is.
    python -c '
from importlib.metadata import PackageNotFoundError, version
from fate_dp.deploy.doctor.probe import FATE_PINS
for name in FATE_PINS:
    try:
        print(f"{name}=={version(name)}")
    except PackageNotFoundError:
        pass' >"$kept_versions"
    python -m pip install --disable-pip-version-check --quiet -c "$kept_versions" -r /dev/stdin <<<"$needed"
fi

python -c '
from importlib.metadata import entry_points
names = sorted({point.name for point in entry_points(group="fate.ext.component_desc")})
print("Components: " + ", ".join(names) + ".")'
"$(python -c 'import sysconfig; print(sysconfig.get_path("scripts"))')/fate-dp" board install "$project/fateboard/dag"

# FATE-Flow's script reads bin/init_env.sh, which sets PYTHONPATH anew: only there does our folder come first in the server
# and its tasks. By it messages of other parties are fenced, tasks start warm and wait for the broker's queues.
if [ -f "$project/bin/init_env.sh" ]; then
    patches=$(python -c 'import fate_dp.deploy.fate_patches as patches; print(patches.__path__[0])')
    sed -i '/# by FATE-DP$/d' "$project/bin/init_env.sh"
    echo "export PYTHONPATH=$patches\${PYTHONPATH:+:\$PYTHONPATH} # by FATE-DP" >>"$project/bin/init_env.sh"
fi

# All that FATE-Flow keeps: each is a volume's place, and a new volume takes owner and mode from it.
kept=("$project"/fate_flow/{data,localfs,model,jobs,logs,database})
if [ ! -e "$keys" ]; then install -d -m 0700 "$keys"; fi
install -d -m 0700 "$home" "${kept[@]}"

# `flow init` writes an app's token into fate_client's settings, which everybody may read and which go with the container:
# they become a link to a file beside the keys. A client that is another environment's stays as it is.
client=$(python -c 'import importlib.util as u, sys
found = u.find_spec("fate_client")
folder = found.submodule_search_locations[0] if found else ""
print(folder if folder.startswith((sys.prefix + "/", sys.argv[1] + "/")) else "")' "$project")
if [ -n "$client" ] && [ -f "$client/settings.yaml" ]; then
    if [ ! -L "$client/settings.yaml" ]; then mv "$client/settings.yaml" "$client/settings.published.yaml"; fi
    [ -e "$keys/client.yaml" ] || install -m 0600 "$client/settings.published.yaml" "$keys/client.yaml"
    ln -sfn "$keys/client.yaml" "$client/settings.yaml"
fi

if [ -n "$user" ]; then
    chown "$user" "$keys"
    [ ! -e "$keys/client.yaml" ] || chown "$user" "$keys/client.yaml"
    chown -R "$user" "$home" "$project/fate_flow" "$project/fateboard"
    echo "FATE-Flow, FATE-Board and $keys belong to $user."
fi
echo "FATE-DP is installed."
