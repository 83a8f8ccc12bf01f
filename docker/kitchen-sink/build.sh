#!/bin/sh
# Builds the kitchen-sink image. Everything it needs lies beside it, in a clone or in a wheel.
#
#   build.sh [--tag NAME] [--base IMAGE] [--extra-ca FILE] [--if-needed]
#
# --if-needed does nothing where the image is there and was built from the recipe as it is now.
# --extra-ca (or FORKLIFT_EXTRA_CA) is for networks that inspect TLS: the certificate is trusted
# during the build and in the image. This machine's own bundle is trusted during the build alone.
# Also read: FORKLIFT_DOCKER (docker), FORKLIFT_APT_MIRROR, pip's and npm's configured index.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
docker=${FORKLIFT_DOCKER:-docker}
tag=forklift/kitchen-sink:latest
base=
extra_ca=${FORKLIFT_EXTRA_CA:-}
pyenv_version=v2.6.30
if_needed=

say() { echo "build: $*" >&2; }
fail() { say "$*" && exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
        --if-needed) if_needed=yes && shift && continue ;;
        --tag | --base | --extra-ca) [ $# -gt 1 ] || fail "$1 needs a value" ;;
        *) fail "unknown argument $1; known: --tag NAME, --base IMAGE, --extra-ca FILE, --if-needed" ;;
    esac
    case $1 in
        --tag) tag=$2 ;;
        --base) base=$2 ;;
        --extra-ca) extra_ca=$2 ;;
    esac
    shift 2
done
"$docker" version >/dev/null 2>&1 || fail "$docker does not answer; see: forklift doctor"
if [ -n "$extra_ca" ] && [ ! -r "$extra_ca" ]; then fail "cannot read $extra_ca"; fi

init=$here/../../src/forklift/guest/init.py
[ -f "$init" ] || init=$here/../guest/init.py
[ -f "$init" ] || fail "guest/init.py is not where it belongs; reinstall forklift"
recipe=$(cd "$here" && find . -type f | LC_ALL=C sort | while read -r file; do sha256sum "$file"; done |
    cat - "$init" ${extra_ca:+"$extra_ca"} | sha256sum | cut -c1-16)
if [ -n "$if_needed" ]; then
    built=$("$docker" image inspect --format '{{index .Config.Labels "forklift.recipe"}}' "$tag" 2>/dev/null || true)
    if [ "$built" = "$recipe" ]; then say "$tag is up to date" && exit 0; fi
fi

# --- the base -----------------------------------------------------------------------------------
present() { "$docker" image inspect "$1" >/dev/null 2>&1; }
if [ -z "$base" ]; then
    base=ubuntu:24.04
    if ! present "$base" && ! timeout 300 "$docker" pull --quiet "$base" >/dev/null 2>&1; then
        base=forklift/base:bootstrapped
        present "$base" || sh "$here/bootstrap-base.sh" "$base"
    fi
elif ! present "$base"; then
    "$docker" pull --quiet "$base" >/dev/null || fail "no image $base"
fi
say "base $base"

# --- the context --------------------------------------------------------------------------------
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp -R "$here/Dockerfile" "$here/agents" "$here/build" "$here/harness" "$here/python" "$context/"
mkdir "$context/ca" "$context/pyenv"

cp "$init" "$context/harness/init.py"
chmod 755 "$context/harness/run.sh" && chmod 644 "$context/harness/init.py"

: >"$context/build/host-ca.crt"
for bundle in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    if [ -f "$bundle" ]; then cat "$bundle" >>"$context/build/host-ca.crt" && break; fi
done
if [ -n "$extra_ca" ]; then
    cat "$extra_ca" >>"$context/build/host-ca.crt"
    cp "$extra_ca" "$context/ca/forklift-extra.crt"
fi

# Only the addresses: what else such a file says may be good on this machine alone, or secret.
printf '%s' "${FORKLIFT_APT_MIRROR:-}" >"$context/build/apt-mirror"
: >"$context/build/pip.conf"
index=${PIP_INDEX_URL:-$(python3 -m pip config get global.index-url 2>/dev/null || true)}
if [ -n "$index" ]; then printf '[global]\nindex-url = %s\n' "$index" >"$context/build/pip.conf"; fi
: >"$context/build/npmrc"
registry=$(npm config get registry 2>/dev/null || true)
case $registry in http*) echo "registry=$registry" >"$context/build/npmrc" ;; esac

# PyEnv is published on GitHub only; where that cannot be reached, this machine's own clone serves.
if timeout 60 git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$pyenv_version" \
    https://github.com/pyenv/pyenv "$context/pyenv" 2>/dev/null; then
    rm -rf "$context/pyenv/.git" "$context/pyenv/test"
elif root=$(pyenv root 2>/dev/null) && git -C "$root" rev-parse HEAD >/dev/null 2>&1; then
    say "GitHub cannot be reached: PyEnv is this machine's own, $(pyenv --version)"
    git -C "$root" archive HEAD bin completions libexec plugins/python-build pyenv.d src LICENSE |
        tar -x -C "$context/pyenv"
else
    say "GitHub cannot be reached and this machine has no PyEnv: the image will have uv only"
fi

# --- the image ----------------------------------------------------------------------------------
set -- --build-arg "BASE_IMAGE=$base" --label "forklift.recipe=$recipe" --tag "$tag"
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    if [ -n "$(printenv "$name")" ]; then set -- "$@" --build-arg "$name"; fi
done
"$docker" build "$@" "$context"
say "built $tag"
