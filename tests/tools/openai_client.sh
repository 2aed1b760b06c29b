#!/usr/bin/env bash
# Runs the openai package's test with build/venv's Python; 77, which ctest shows as skipped, when
# there is no such package (tools/test-clients --pinned makes it; it needs the network once).
set -euo pipefail
cd "$(dirname "$0")/../.."

python=build/venv/bin/python
if ! "$python" -c 'import openai' 2> /dev/null; then
  echo "skipped: no openai package in build/venv; tools/test-clients --pinned installs it"
  exit 77
fi
exec "$python" tests/engine/server/openai_client.py "$@"
