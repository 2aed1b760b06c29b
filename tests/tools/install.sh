#!/usr/bin/env bash
# install.sh BUILD: installs a built tree into a folder, moves that, and tests it there: the program
# answers and finds its data, and its pages are installed. Nothing may name the source tree.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/first" > "$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/second"
prefix=$work/second
program=$prefix/bin/tandem
fail() {
  echo "install: $*"
  find "$prefix" -type f
  exit 1
}

"$program" --version | grep -q '^tandem [0-9]' || fail "--version says no version"
"$program" generate --model tests/data/demo-llama --adapter tests/data/demo-llama/adapters/python \
  --no-pin --max-tokens 4 --temperature 0 -p 'import os' > "$work/text" || fail "generate failed"
[[ -s $work/text ]] || fail "generate said nothing"
"$program" bench kernels --help | grep -qF "$prefix/share/tandem/peer_kernels.csv" ||
  fail "bench kernels does not find its figures in share/tandem"
for page in README.md CHANGELOG.md LICENSE docs/settings.md configs/demo.toml; do
  [[ -s $prefix/share/doc/tandem/$page ]] || fail "no share/doc/tandem/$page"
done
grep -q '^.TH TANDEM' "$prefix/share/man/man1/tandem-serve.1" || fail "no manual page of serve"
if grep -qrF "$source" "$prefix/share/man"; then fail "a manual page names the source tree"; fi
for file in bash-completion/completions/tandem zsh/vendor-completions/_tandem fish/vendor_completions.d/tandem.fish; do
  grep -q max-model-len "$prefix/share/$file" || fail "no share/$file"
done
# Linking cuBLAS would slow each process down (gpu/cuda/gemm/cublas_lt.h).
if readelf -d "$program" | grep -q 'NEEDED.*cublas'; then fail "the program links cuBLAS"; fi
if grep -qF "$source/tests" "$program"; then fail "the program names a file of the source tree"; fi
echo "install: bin/tandem runs from any prefix"
