#!/bin/sh
# bootstrap-base.sh TAG: a base image without a registry: Ubuntu 24.04 from Ubuntu's own archive,
# or, where that cannot be reached, this machine's own Debian or Ubuntu. Needs root and mmdebstrap.
set -eu
tag=$1
docker=${FORKLIFT_DOCKER:-docker}
mirror=${FORKLIFT_APT_MIRROR:-http://archive.ubuntu.com/ubuntu}

# The package that holds the archive's keys, by hash: from there on apt checks every signature.
keyring=pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb
keyring_sha256=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

say() { echo "build: $*" >&2; }
fail() { say "$*" && exit 1; }

[ "$(id -u)" = 0 ] || fail "no registry can be reached, and only root can bootstrap a base image; run with sudo or give --base IMAGE"
if ! command -v mmdebstrap >/dev/null; then
    command -v apt-get >/dev/null || fail "mmdebstrap is missing; install it, or give --base IMAGE"
    apt-get -qq update && apt-get -qq install -y --no-install-recommends mmdebstrap >/dev/null
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"

ubuntu() {
    case $(dpkg --print-architecture) in amd64) ;; *) return 1 ;; esac
    curl -fsS --max-time 30 -o "$folder/keyring.deb" "$mirror/$keyring" || return 1
    echo "$keyring_sha256  $folder/keyring.deb" | sha256sum --check --status ||
        fail "$mirror gave another ubuntu-keyring than expected"
    dpkg-deb -x "$folder/keyring.deb" "$folder/keyring"
    keys=$folder/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg
    {
        for suite in noble noble-updates noble-security; do
            echo "deb $mirror $suite main universe"
        done
    } >"$folder/sources.list"
    mmdebstrap --quiet --variant=minbase --include=apt,ca-certificates,ubuntu-keyring --keyring="$keys" noble "$folder/base.tar" "$folder/sources.list"
}

host() {
    . /etc/os-release
    mmdebstrap --quiet --variant=minbase --include=apt,ca-certificates "$VERSION_CODENAME" "$folder/base.tar"
}

if ubuntu; then
    say "no registry can be reached: the base is Ubuntu 24.04, bootstrapped from $mirror"
else
    say "neither a registry nor $mirror can be reached: the base is this machine's own distribution"
    host
fi
"$docker" import "$folder/base.tar" "$tag" >/dev/null
