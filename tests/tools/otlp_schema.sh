#!/usr/bin/env bash
# Runs otlp_schema.py with build/venv's Python; 77, which ctest shows as skipped, where that has no
# opentelemetry-proto (tools/test-clients --pinned installs it; it needs the network once).
set -euo pipefail
cd "$(dirname "$0")/../.."

python=build/venv/bin/python
if ! "$python" -c 'import opentelemetry.proto' 2> /dev/null; then
  echo "skipped: no opentelemetry-proto in build/venv; tools/test-clients --pinned installs it"
  exit 77
fi
exec "$python" tests/tools/otlp_schema.py "$@"
