#!/usr/bin/env bash
# Checks how .ci/run treats randomised tests, with tools that do nothing and three presets
# of a project of three tests.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir .ci tools
cp "$source"/.ci/{run,seeded,failed-searches,slowest} .ci
for tool in install-deps format arrows words includes lint fuzz; do
  printf '#!/bin/sh\n' > tools/$tool
done
cat > tools/test << 'END'
#!/usr/bin/env bash
preset=release
[[ $1 != --preset ]] || { preset=$2; shift 2; }
[[ $2 != build ]] || exec cmake --preset "$preset"
exec ctest --preset "$preset" --output-junit "$PWD/build/$preset/tests.xml"
END
chmod +x tools/*
cat > CMakePresets.json << 'END'
{"version": 6,
 "configurePresets": [
  {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}"},
  {"name": "asan", "inherits": "release"}, {"name": "tsan", "inherits": "release"}],
 "testPresets": [
  {"name": "release", "configurePreset": "release", "output": {"outputOnFailure": true}},
  {"name": "asan", "inherits": "release", "configurePreset": "asan"},
  {"name": "tsan", "inherits": "release", "configurePreset": "tsan"}]}
END
cat > CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.25)
project(seeds NONE)
enable_testing()
foreach(name plain search other)
  add_test(NAME ${name}.Holds COMMAND sh "${CMAKE_SOURCE_DIR}/${name}" ${CMAKE_BINARY_DIR})
endforeach()
END

# Runs CI with such tests; sets `status` and `printed`.
run() { # SCRIPT of the randomised test, and of the one that is not
  printf 'echo TANDEM_TEST_SEED=$TANDEM_TEST_SEED\n%s\n' "$1" > search
  printf 'echo TANDEM_TEST_SEED=$TANDEM_TEST_SEED\n' > other
  printf '%s\n' "$2" > plain
  status=0
  printed=$(.ci/run 2>&1 < /dev/null) || status=$?
}
fail() { echo "ci_seeds: $*; it ended with $status and printed: $printed" >&2; exit 1; }
seed() { sed -n 's/^ci: TANDEM_TEST_SEED=//p' <<< "$printed"; }

unset TANDEM_TEST_SEED
run true true
[[ $status == 0 ]] || fail "all tests pass"
[[ $printed != *"to be mended"* ]] || fail "there is nothing to mend"
first=$(seed)
[[ $first =~ ^[0-9]+$ ]] || fail "prints no seed"

# Passes only with the fixed seed, and not in each preset.
run '[ $TANDEM_TEST_SEED = 20261125 ] || case $1 in *release) false;; *) true;; esac' true
[[ $status == 0 ]] || fail "a test that fails for its seed fails CI"
[[ $(seed) != "$first" ]] || fail "the same seed twice"
expected="TANDEM_TEST_SEED=$(seed) tools/test --preset release --filter '^search\.Holds$'"
[[ $(tail -n 1 <<< "$printed") == "$expected" ]] || fail "expected the last line '$expected'"

export TANDEM_TEST_SEED=5
run '[ $TANDEM_TEST_SEED != 5 ]' true
[[ $status == 0 && $(seed) == 5 ]] || fail "does not search where the environment says"
[[ $(tail -n 3 <<< "$printed" | grep -c '^TANDEM_TEST_SEED=5 ') == 3 ]] || fail "expected a line of each preset"

run false true
[[ $status != 0 ]] || fail "a test that fails with both seeds"
[[ $printed == *"'tests, release' failed"* ]] || fail "does not say what failed"
run true '[ -e again ] || { touch again; false; }'
[[ $status != 0 ]] || fail "a test that does not search had a second try"
[[ $printed == *"plain.Holds fails, and not for its seed"* ]] || fail "does not say why"
