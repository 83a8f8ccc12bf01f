#!/bin/sh
# Stage `system`, as root: the distribution's packages.
set -eu
export DEBIAN_FRONTEND=noninteractive
mirror=$(cat /opt/forklift/build/apt-mirror)
if [ -n "$mirror" ]; then
    find /etc/apt -name '*.list' -o -name '*.sources' | xargs -r sed -i -E \
        "s#https?://[a-z.]*(archive|security)\.ubuntu\.com/ubuntu/?#$mirror#"
fi
apt-get -qq update

packages="
    bash bash-completion build-essential ca-certificates cmake curl fd-find file git git-lfs jq less
    libssl-dev make openssl patch pkg-config procps python3 python3-dev python3-pip python3-venv
    ripgrep tree unzip wget xz-utils zip
    libbz2-dev libffi-dev liblzma-dev libreadline-dev libsqlite3-dev zlib1g-dev
" # the last line: what pyenv needs to build a Python
if apt-cache show rustup >/dev/null 2>&1; then
    packages="$packages rustup"
fi
# shellcheck disable=SC2086  # a list
apt-get -qq install -y --no-install-recommends $packages >/dev/null
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /usr/share/doc/* /usr/share/man/*
