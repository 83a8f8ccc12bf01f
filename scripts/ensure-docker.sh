#!/bin/sh
# A Docker Engine that answers, or one line that says what a person must do. Changes nothing where
# one answers already. Read: FORKLIFT_DOCKER, DOCKER_HOST, FORKLIFT_DOCKERD_ARGS (for dockerd).
set -eu
docker=${FORKLIFT_DOCKER:-docker}
pid_file=/run/forklift-dockerd.pid
log=/var/log/forklift-dockerd.log
if [ ! -w /run ] || [ ! -w /var/log ]; then
    pid_file=${TMPDIR:-/tmp}/forklift-dockerd.pid log=${TMPDIR:-/tmp}/forklift-dockerd.log
fi

main() {
    if answers; then ready; fi
    case $(timeout 20 "$docker" version 2>&1 || true) in
        *"permission denied"*)
            stop "Docker refuses this user; run: sudo usermod -aG docker \$USER, then log in again" ;;
    esac
    [ "$(id -u)" = 0 ] || stop "Docker does not answer; run: sudo systemctl start docker (or: sudo $0)"
    command -v dockerd >/dev/null || install
    start_as_service
    start_here
    if grep -qsE 'iptables|nf_tables' "$log" && use_legacy_iptables; then start_here; fi
    if grep -qs 'error initializing graphdriver' "$log"; then start_here --storage-driver=vfs; fi
    reason=$(grep -E 'level=(error|fatal)|failed to start' "$log" | tail -n 1)
    stop "dockerd did not come up: ${reason:-$(tail -n 1 "$log")}; its log: $log"
}

answers() { timeout 20 "$docker" version >/dev/null 2>&1; }

ready() {
    echo "docker: ready ($("$docker" version --format '{{.Server.Version}}'))"
    exit 0
}

stop() {
    echo "docker: $*" >&2
    exit 1
}

install() {
    # shellcheck disable=SC1091
    . /etc/os-release
    case "$ID ${ID_LIKE:-}" in
        *debian* | *ubuntu*) ;;
        *) stop "Docker is missing; install it as https://docs.docker.com/engine/install/ says for $ID" ;;
    esac
    echo "docker: installing docker.io and iptables"
    export DEBIAN_FRONTEND=noninteractive
    # What is installed must not start by itself: without systemd its start script only fails.
    apt-get -qq update && apt-get -qq install -y --no-install-recommends docker.io iptables >/dev/null ||
        stop "docker.io could not be installed; see: apt-get install docker.io iptables"
    if [ -d /run/systemd/system ]; then systemctl -q enable docker || true; fi
}

start_as_service() {
    if [ -d /run/systemd/system ]; then
        systemctl start docker || stop "systemd could not start Docker; see: journalctl -u docker"
        wait_for_it 60 || stop "Docker was started but does not answer; see: journalctl -u docker"
    fi
}

# Without systemd, such as in a container or a small VM: in the background, in a session of its own.
start_here() {
    end_mine
    mount_cgroups
    # shellcheck disable=SC2086  # a list
    setsid dockerd --pidfile "$pid_file.dockerd" "$@" ${FORKLIFT_DOCKERD_ARGS:-} >"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    wait_for_it 60 "$(cat "$pid_file")" || true
}

wait_for_it() {
    tries=$(($1 * 2))
    while [ "$tries" -gt 0 ]; do
        if answers; then ready; fi
        if [ -n "${2:-}" ] && ! kill -0 "$2" 2>/dev/null; then return 1; fi
        sleep 0.5
        tries=$((tries - 1))
    done
    return 1
}

# Only the one that this script started, by its number, and only if it still is dockerd.
end_mine() {
    [ -f "$pid_file" ] || return 0
    old=$(cat "$pid_file")
    if [ "$(cat "/proc/$old/comm" 2>/dev/null)" = dockerd ]; then
        kill "$old" 2>/dev/null || true
        while kill -0 "$old" 2>/dev/null; do sleep 0.2; done
    fi
    rm -f "$pid_file"
}

mount_cgroups() {
    if mountpoint -q /sys/fs/cgroup; then return 0; fi
    if command -v cgroupfs-mount >/dev/null; then cgroupfs-mount && return 0; fi
    mount -t cgroup2 cgroup2 /sys/fs/cgroup || stop "no cgroups: mount them at /sys/fs/cgroup"
}

use_legacy_iptables() {
    legacy=/usr/sbin/iptables-legacy
    [ -x "$legacy" ] && [ "$(readlink -f "$(command -v iptables)")" != "$(readlink -f "$legacy")" ] || return 1
    update-alternatives --set iptables "$legacy" >/dev/null
}

main
