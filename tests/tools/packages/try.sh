#!/usr/bin/env bash
# try.sh FOLDER: as root of a disposable machine (tools/package try), installs the packages in
# FOLDER, uses them as a user would, and removes them.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=$1
here=$PWD
log=$(mktemp)
server=""
trap '[[ -z $server ]] || kill -KILL "$server" 2> /dev/null || true' EXIT
fail() { echo "try: $*" >&2; cat "$log" >&2; exit 1; }
say() { echo "try: $*"; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -q > "$log" 2>&1 || fail "apt-get update failed"
apt-get install -y -q --no-install-recommends curl ca-certificates > "$log" 2>&1 || fail "no curl"

# serve COMMAND ...: runs it until it is ready, asks for an adapter's answer, and ends it by
# SIGTERM.
serve() {
  "$@" 2> "$log" &
  server=$!
  local tries=0 status=0 url answer
  until grep -q ' ready: ' "$log"; do
    kill -0 "$server" 2> /dev/null || fail "the server ended: $*"
    ((++tries < 600)) || fail "not ready after a minute: $*"
    sleep 0.1
  done
  url=$(sed -n 's/.* listening on \(http:[^;]*\);.*/\1/p' "$log")
  answer=$(curl -sS -m 60 "$url/v1/completions" -H 'Content-Type: application/json' \
    -d '{"model": "python", "prompt": "import os", "max_tokens": 4}') || fail "no answer"
  [[ $answer == *'"completion_tokens":4'* ]] || fail "an odd answer: $answer"
  kill -TERM "$server"
  wait "$server" || status=$?
  server=""
  [[ $status == 0 ]] || fail "SIGTERM ended it with $status"
}

# --- The Debian package ----------------------------------------------------------------------------
unit=/usr/lib/systemd/system/tandem.service
# Runs as the unit would under systemd: with its command, user and variables, without capabilities.
as_unit() {
  local command environment
  command=$(sed -n 's/^ExecStart=//p' $unit)
  environment=$(sed -n 's/^Environment=//p' $unit)
  install -d -o tandem -g tandem /var/cache/tandem
  cd /var/lib/tandem
  # shellcheck disable=SC2086
  serve setpriv --reuid=tandem --regid=tandem --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    --ambient-caps=-all env -i PATH=/usr/bin $environment $command
  cd "$here"
}

try_deb() { # DEB [NEWER]
  local installed settings=/etc/tandem/tandem.toml name one
  name=$(dpkg-deb -f "$1" Package)
  apt-get install -y -q --no-install-recommends "$1" > "$log" 2>&1 || fail "$1 does not install"
  tandem --version | grep -q '^tandem [0-9]' || fail "tandem is not on the PATH"
  getent passwd tandem | grep -q nologin || fail "no user tandem"
  [[ -s /usr/share/man/man1/tandem-serve.1.gz ]] || fail "no manual page"
  for one in $settings /etc/tandem/route.toml; do
    dpkg-query -W -f '${Conffiles}' "$name" | grep -q "$one" || fail "$one is no conffile"
  done
  for one in tandem tandem-route; do
    sed '/^Documentation=/d' ${unit%/*}/$one.service > /tmp/$one.service # no `man` in a bare root
    systemd-analyze verify /tmp/$one.service > "$log" 2>&1 || fail "systemd-analyze verify finds fault"
    [[ ! -s $log ]] || fail "systemd-analyze verify complains"
    systemd-analyze security --offline=yes --threshold=20 /tmp/$one.service > "$log" || fail "$one.service is too open"
    say "$name: installed; $(grep -o 'Overall exposure.*: [0-9.]*' "$log")"
  done

  local status=0
  tandem serve --config $settings > /dev/null 2> "$log" || status=$?
  [[ $status == 2 ]] && grep -q 'model' "$log" || fail "no message without a model: status $status"
  status=0
  tandem route --config /etc/tandem/route.toml > /dev/null 2> "$log" || status=$?
  [[ $status == 2 ]] && grep -q 'which engines' "$log" || fail "no message without engines: status $status"
  mkdir -p /var/lib/tandem/models
  cp -r tests/data/demo-llama /var/lib/tandem/models/demo
  chmod -R a+rX /var/lib/tandem/models
  {
    echo 'model = "/var/lib/tandem/models/demo"'
    echo 'adapters = "/var/lib/tandem/models/demo/adapters"'
  } >> $settings
  as_unit
  say "served as tandem, by the unit's command"

  systemctl --quiet enable tandem.service || fail "systemctl enable fails"
  if (($# > 1)); then
    apt-get install -y -q --no-install-recommends "$2" > "$log" 2>&1 || fail "$2 does not install over $1"
    installed=$(dpkg-query -W -f '${Version}' "$name")
    [[ $installed == "$(dpkg-deb -f "$2" Version)" ]] || fail "after the upgrade it is $installed"
    grep -q models/demo $settings || fail "the upgrade lost the settings"
    systemctl --quiet is-enabled tandem.service || fail "the upgrade took the unit out of the start"
    as_unit
    say "upgraded to $installed, settings kept, served again"
  fi

  apt-get remove -y -q "$name" > "$log" 2>&1 || fail "does not remove"
  [[ ! -e /usr/bin/tandem && ! -e $unit ]] || fail "removed, and still there"
  [[ -z $(find /etc/systemd -name 'tandem*') ]] || fail "removed, and a link to the unit is left"
  grep -q models/demo $settings || fail "removing took the settings"
  [[ -d /var/lib/tandem/models ]] || fail "removing took models"
  rm -r /var/lib/tandem/models
  apt-get purge -y -q "$name" > "$log" 2>&1 || fail "does not purge"
  # Data that apt and dpkg keep about all packages, and this tree, do not count.
  installed=$(find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /root -o -path /tmp -o -path /var/lib/apt \
    -o -path /var/cache/apt -o -path /var/log \) -prune -o -name '*tandem*' -print)
  [[ -z $installed ]] || fail "left behind: $installed"
  if getent passwd tandem; then fail "the user tandem is left"; fi
  say "removed and purged without residue"
}

# Packages for this release without CUDA, since CUDA's packages are not in Debian.
# shellcheck source=/dev/null
mapfile -t debs < <(. /etc/os-release && printf '%s\n' "$folder"/tandem_*"~$ID$VERSION_ID"_*.deb | sort -V)
if [[ -f ${debs[0]} ]]; then try_deb "${debs[@]:0:2}"; else say "no Debian package of this release lies in $folder"; fi

# --- The wheel -------------------------------------------------------------------------------------
try_wheel() { # WHEEL
  local root=/tmp/venv
  apt-get install -y -q --no-install-recommends python3-venv > "$log" 2>&1 || fail "no python3-venv"
  python3 -m venv $root
  $root/bin/pip install -q --no-index "$1" > "$log" 2>&1 || fail "$1 does not install"
  $root/bin/tandem --version | grep -q '^tandem [0-9]' || fail "the wheel's tandem does not run"
  serve env TANDEM_LEARNED_COSTS=none $root/bin/tandem serve --model tests/data/demo-llama \
    --adapters tests/data/demo-llama/adapters --port 0
  $root/bin/pip uninstall -q -y tandem-serve > "$log" 2>&1 || fail "does not uninstall"
  [[ -z $(find $root -name '*tandem*') ]] || fail "left behind: $(find $root -name '*tandem*')"
  say "$(basename "$1"): installed into a venv, served, uninstalled without residue"
}
for wheel in "$folder"/tandem_serve-*.whl; do [[ ! -f $wheel ]] || try_wheel "$wheel"; done
say "all worked"
