#!/usr/bin/env bash
# Checks the messages of tools/clean-root before it makes anything: no root, network or mounts
# needed.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs clean-root with the test's cache; sets `status` and `printed`.
run() {
  status=0
  printed=$("$BASH" tools/clean-root --cache "$work/cache" "$@" 2>&1 < /dev/null) || status=$?
}
fail() { echo "clean_root: $*; it ended with $status and printed: $printed" >&2; exit 1; }
expect() { # STATUS TEXT WHAT: of the last run
  [[ $status == "$1" ]] || fail "$3: expected status $1"
  [[ $printed == *"$2"* ]] || fail "$3: expected '$2'"
  [[ ! -e $work/cache ]] || fail "$3: wrote to its cache"
}

run --help
expect 0 "tools/clean-root bookworm" "help"
expect 0 "tools/clean-root trixie" "help"
[[ $printed != *"set -"* ]] || fail "help holds code"

run
expect 2 "which release? bookworm (Debian 12) or trixie (Debian 13)" "no release"
run sid
expect 2 "unknown release 'sid'" "another release"
run trixie --slow
expect 2 "unknown option '--slow'" "another option"
run trixie --ccache
expect 2 "--ccache needs a value" "an option without its value"
run --bring "$work/nothing" trixie
expect 2 "there is no file '$work/nothing' to bring" "a file that is not there"
run --mirror "" trixie
expect 2 "--mirror needs a value" "an option with an empty value"

if git rev-parse -q --verify HEAD > /dev/null 2>&1; then
  run trixie --list tools/test --filter x
  expect 0 "tools/test --filter x" "a command with options of its own"
  run bookworm --list
  expect 0 $'./tools/quickstart\n./tools/test' "README's commands"

  # Simulates a machine that allows neither mounts nor user namespaces.
  mkdir "$work/bin"
  printf '#!/bin/sh\necho "unshare: unshare failed: Operation not permitted" >&2\nexit 1\n' > "$work/bin/unshare"
  chmod +x "$work/bin/unshare"
  PATH=$work/bin:$PATH run trixie true
  expect 2 "Operation not permitted" "a machine without namespaces"
  expect 2 "clean-root: " "a machine without namespaces"
  # Simulates a machine that allows them but lacks everything else.
  printf '#!/bin/sh\nexit 0\n' > "$work/bin/unshare"
  for tool in bash dirname git id cat mktemp; do ln -s "$(command -v $tool)" "$work/bin/"; done
  PATH=$work/bin run trixie true
  expect 2 "apt-get install -y tar mmdebstrap" "a machine without the tools"
fi
echo "clean_root: all said as expected"
