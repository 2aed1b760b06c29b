#!/usr/bin/env bash
# small_machines.sh PROGRAM cores|shm
# Tests machines that lack something: one core, cores that are all taken, a CPU without AVX-512, a
# /dev/shm that is small, full or read-only. On each the server logs once what is missing and what
# helps, and answers as usual. Exit status 77: not permitted here.
set -uo pipefail
cd "$(dirname "$0")/../.."
self=tests/tools/small_machines.sh

# ask URL MODEL ...: prints the answer of each.
ask() {
  local url=$1 model
  shift
  for model in "$@"; do
    curl -sS -m 60 "$url/v1/completions" -H 'Content-Type: application/json' -d '{
      "model": "'"$model"'", "max_tokens": 12, "temperature": 0,
      "prompt": "import os\nimport sys\n\n\nclass Reader:\n    def close(self):\n"}' |
      jq -r '.choices[0].text | @json'
  done
}

# --check URL LOG EXPECTED SENTENCE: run by with_server.sh with its server. Without a SENTENCE the
# answers are stored as EXPECTED.
check() {
  local url=$1 log=$2 expected=$3 sentence=$4 answers told
  if [[ -n ${FILL_SHM:-} ]]; then
    head -c 1T /dev/zero > /dev/shm/filler 2> /dev/null
    curl -sS -m 60 "$url/v1/load_lora_adapter" -H 'Content-Type: application/json' \
      -d '{"lora_name": "new", "lora_path": "python"}' | grep -q Success ||
      { echo "no adapter can be loaded"; return 1; }
    [[ $(ask "$url" new) == "$(ask "$url" python)" ]] || { echo "the new one differs"; return 1; }
  fi
  answers=$(ask "$url" demo-llama python cheader docstring license)
  if [[ -z $sentence ]]; then
    echo "$answers" > "$expected"
    (($(sort -u "$expected" | wc -l) > 2)) || { echo "no answers: $answers"; return 1; }
    return 0
  fi
  diff "$expected" - <<< "$answers" || { echo "other answers"; return 1; }
  told=$(grep -cE "$sentence" "$log")
  ((told == 1)) && [[ $(grep -cE ' (warning|error) ' "$log") -le ${WARNINGS:-1} ]] && return 0
  echo "the log is to say once: $sentence"
  cat "$log"
  return 1
}

# serves PROGRAM EXPECTED NAME SENTENCE [FLAG ...]: checks a server in this environment. Deadlines
# of workers are long, because a late answer would log a warning, and warnings are counted.
serves() {
  local program=$1 expected=$2 name=$3 sentence=$4
  shift 4
  tests/tools/with_server.sh "$program" --pin --dtype f32 --handoff-deadline-ms 30000 "$@" \
    --adapter-root tests/data/demo-llama/adapters \
    -- "$self" --check '{URL}' '{LOG}' "$expected" "$sentence" && echo "ok: $name" && return 0
  echo "FAILED: $name"
  return 1
}

case $1 in
  --check)
    shift
    check "$@"
    exit
    ;;
  --within) # OPTIONS FILLER ...: with a /dev/shm of its own, in which FILLER bytes are taken
    mount -t tmpfs -o "$2" tmpfs /dev/shm || exit 1
    [[ $3 == 0 ]] || head -c "$3" /dev/zero > /dev/shm/filler 2> /dev/null
    shift 3
    serves "$@"
    exit
    ;;
esac

program=$1
failed=0
expected=$(mktemp)
trap 'rm -f "$expected"' EXIT
here() { serves "$program" "$expected" "$@" || failed=1; }
with_shm() {
  local options=$1 filler=$2
  shift 2
  unshare -m "$self" --within "$options" "$filler" "$program" "$expected" "$@" || failed=1
}

here "the machine as it is" ""

case $2 in
  cores)
    cpus=$(taskset -cp $$ | sed 's/.*: //')
    first=${cpus%%[-,]*}
    last=${cpus##*[-,]}
    both=$first,$last
    [[ $first != "$last" ]] || both=$first
    taskset -cp "$both" $$ > /dev/null
    here "more workers than cores" 'warning .*64 workers are asked for' --cpu-workers 64
    here "all cores are the workers' as well" \
      'warning cpus .* are both .*pin plan' --worker-cpus "$both"
    ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 here "no AVX-512" \
      'info .* CPU workers? for cold adapters, in f32, without AMX' \
      --worker-cpus "$last" --link-gbps 0.01
    taskset -cp "$first" $$ > /dev/null
    here "one core, for the engine" ' on host: 1 thread,'
    here "one core, where two workers are asked for" \
      'warning 2 workers are asked for and 0 get a core.*' --cpu-workers 2
    here "one core, for the engine and a worker" \
      "warning cpus $first are both .*pin plan" --worker-cpus "$first"
    if [[ $first != "$last" ]]; then
      message=$("$program" serve --model tests/data/demo-llama --port 0 --worker-cpus "$last" 2>&1)
      status=$?
      if ((status == 2)) &&
        grep -q "worker_cpus: .* not run on core $last; it may on $first " <<< "$message"; then
        echo "ok: a core outside the cpuset is refused by its setting's name"
      else
        echo "FAILED: a core outside the cpuset: $message"
        failed=1
      fi
    fi
    ;;
  shm)
    if ! unshare -m mount -t tmpfs -o size=1m tmpfs /dev/shm 2> /dev/null; then
      echo "skipped: unshare may not make a mount namespace here, which this needs"
      exit 77
    fi
    private='warning adapters are kept in this process.s own memory.*pipelined: .*/dev/shm'
    export WARNINGS=1
    with_shm size=8m 0 "a small /dev/shm" "$private has no room.*--shm-size" --adapter-mode planned
    with_shm size=8m 0 "a small /dev/shm for the host tier that is wished for" \
      "$private has no room for 100.0 MB.*host_tier_gb" --host-tier-gb 0.1
    with_shm size=300m 1G "a full /dev/shm" "$private.*\(0 B are free\).*--shm-size" --host-tier-gb 0.01
    with_shm size=1g,ro 0 "a read-only /dev/shm" \
      'warning adapters are .*is mounted read-only: .*remount,rw' --host-tier-gb 0.01
    export WARNINGS=2 # that f32 is not what AMX is for
    with_shm size=8m 0 "a small /dev/shm, and workers" "$private.*--shm-size" \
      --cpu-workers 1 --host-tier-gb 0.01
    with_shm size=40m 0 "a /dev/shm with room for adapters but not for mailboxes" \
      'warning no CPU workers.*pipelined: /dev/shm has no room.*--shm-size' \
      --host-tier-gb 0.039 --cpu-workers 1
    FILL_SHM=1 with_shm size=300m 0 "a /dev/shm that fills up while serving" \
      'info 1 CPU worker for cold adapters' --cpu-workers 1 --link-gbps 0.01
    ;;
esac
exit "$failed"
