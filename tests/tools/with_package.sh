#!/usr/bin/env bash
# with_package.sh PACKAGE MODULE SCRIPT ...: runs a Python script with build/venv's Python. Exit
# status 77, which ctest shows as skipped, if that cannot import MODULE of the PyPI package PACKAGE
# (tools/test-clients --pinned installs it, with network access once).
set -euo pipefail
cd "$(dirname "$0")/../.."

package=$1 module=$2
python=build/venv/bin/python
if ! "$python" -c "import $module" 2> /dev/null; then
  echo "skipped: no package $package in build/venv; tools/test-clients --pinned installs it"
  exit 77
fi
exec "$python" "${@:3}"
