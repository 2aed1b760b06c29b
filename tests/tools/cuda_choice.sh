#!/usr/bin/env bash
# Checks the decisions of cmake/TandemCuda.cmake on machines with nvcc but no GPU. Compiles nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\nexit 9\n' > "$work/nvidia-smi"  # as on a machine without a GPU
chmod +x "$work/nvidia-smi"

configure() { # OPTION...: sets `status` and `printed`
  status=0
  printed=$(PATH=$work:$PATH TANDEM_CUDA_ARCHITECTURES= cmake -DTANDEM_NVCC=/usr/bin/true "$@" \
    -P cmake/TandemCuda.cmake 2>&1) || status=$?
}
expect() { # STATUS TEXT
  [[ $status == "$1" && $(tr -s ' \n' ' ' <<< "$printed") == *"$2"* ]] ||
    { echo "cuda_choice: expected status $1 and '$2', not $status and: $printed" >&2; exit 1; }
}

configure -DTANDEM_CUDA=AUTO
expect 0 "CUDA: left out, this machine has no GPU; the host device is built"
expect 0 "TANDEM_CUDA_ARCHITECTURES=90 in the environment"
configure -DTANDEM_CUDA=OFF
expect 0 "CUDA: off by TANDEM_CUDA=OFF"
configure -DTANDEM_CUDA=ON
expect 1 "TANDEM_CUDA=ON, but this machine has no GPU to compile for"
