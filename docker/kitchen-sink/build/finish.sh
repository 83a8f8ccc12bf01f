#!/bin/sh
# The last stage, as root: the user, the Rust toolchain, the names under which tools are looked for.
set -eu
export DEBIAN_FRONTEND=noninteractive
tools=/opt/tools

if [ ! -x "$tools/rust/bin/rustc" ]; then
    version=$(cat "$tools/rust-version")
    apt-get -qq update
    for names in "rustc-$version cargo-$version rustfmt-$version rust-$version-clippy" \
        "rustc-$version cargo-$version" "rustc-web cargo-web" "rustc cargo"; do
        # shellcheck disable=SC2086  # a list
        if apt-get -qq install -y --no-install-recommends $names >/dev/null 2>&1; then break; fi
    done
    if [ -d "/usr/lib/rust-$version/bin" ]; then
        rm -r "$tools/rust" && ln -s "/usr/lib/rust-$version" "$tools/rust"
    fi
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /usr/share/doc/* /usr/share/man/*
fi
if command -v rustup >/dev/null; then
    # rustup looks below the home, which is empty at first: the image's toolchain is linked there.
    mkdir -p /etc/rustup
    printf 'version = "12"\ndefault_toolchain = "image"\n' >/etc/rustup/settings.toml
    cat >"$tools/bin/rust-proxy" <<'PROXY'
#!/bin/sh
toolchain="${RUSTUP_HOME:-$HOME/.rustup}/toolchains/image"
[ -e "$toolchain" ] || { mkdir -p "${toolchain%/*}" && ln -s /opt/tools/rust "$toolchain"; }
exec "/usr/bin/${0##*/}" "$@"
PROXY
    chmod 755 "$tools/bin/rust-proxy"
    for program in rustup cargo rustc rustfmt cargo-fmt cargo-clippy rustdoc; do
        ln -s rust-proxy "$tools/bin/$program"
    done
fi

ln -sf /usr/bin/fdfind "$tools/bin/fd"
if [ -n "$(find /opt/forklift/build/ca -name '*.crt')" ]; then
    cp /opt/forklift/build/ca/*.crt /usr/local/share/ca-certificates/
    update-ca-certificates >/dev/null
fi
git lfs install --system --skip-repo --skip-smudge >/dev/null # pointers stay: there is no remote

if getent passwd 1000 >/dev/null; then userdel --remove "$(getent passwd 1000 | cut -d: -f1)"; fi
useradd --uid 1000 --user-group --home-dir /harness-state/home --no-create-home --shell /bin/bash forklift
mkdir -p /workspace /harness-state/home /run/forklift
chown -R forklift:forklift /workspace /harness-state
