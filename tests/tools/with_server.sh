#!/usr/bin/env bash
# with_server.sh PROGRAM [FLAG ...] -- COMMAND [ARG ...]
# Runs COMMAND while `PROGRAM serve FLAG ...` serves the demo model on a free port, or the one that
# TANDEM_TEST_MODEL names. In the arguments
# {URL} is replaced by its address and {LOG} by the file of its log. The exit status is the
# command's, or 1 if the server failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

program=$1
shift
flags=()
while [[ $1 != -- ]]; do
  flags+=("$1")
  shift
done
shift
[[ " ${flags[*]} " == *" --pin "* ]] || flags+=(--no-pin)

# Tests run in parallel, so servers ignore the cores that others claim.
export TANDEM_CLAIM_CORES=false
log=$(mktemp)
model=${TANDEM_TEST_MODEL:-tests/data/demo-llama}
"$program" serve --model "$model" --adapters "$model/adapters" --port 0 "${flags[@]}" 2> "$log" &
server=$!
trap 'kill -KILL "$server" 2> /dev/null; rm -f "$log"' EXIT
for ((tries = 0; tries < 600; ++tries)); do
  grep -q ' ready: ' "$log" && break
  kill -0 "$server" 2> /dev/null || break
  sleep 0.1
done
url=$(sed -n 's/.* listening on \(http:[^;]*\);.*/\1/p' "$log")
grep -q ' ready: ' "$log" || { echo "the server did not become ready:"; cat "$log"; exit 1; }

set -- "${@//\{URL\}/$url}"
"${@//\{LOG\}/$log}"
status=$?
kill -TERM "$server"
wait "$server"
ended=$?
if ((ended != 0)); then
  echo "the server ended with $ended:"
  cat "$log"
  exit 1
fi
exit "$status"
