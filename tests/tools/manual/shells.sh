#!/usr/bin/env bash
# shells.sh PROGRAM: checks the completions of the program's scripts in bash, and in zsh and fish if
# they exist, and reads every manual page with the available tools.
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "shells: $*" >&2; exit 1; }
has() { # WORD WHAT: one line of standard input begins with it
  local lines
  lines=$(cat)
  grep -q -- "^$1\([[:space:]]\|$\)" <<< "$lines" || fail "$2: no '$1' in: $lines"
}
lacks() { ! grep -q -- "^$1\([[:space:]]\|$\)" || fail "$2: '$1' is there"; }
mkdir "$work/folder"
touch "$work/file"
cd "$work"
for shell in bash zsh fish; do "$program" completion $shell > "$work/$shell"; done

in_bash() { # WORD ...: what completes the last one
  "$BASH" --norc -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tandem
    printf "%s\n" "${COMPREPLY[@]}"' bash "$work/bash" "$@"
}
in_bash tandem ser | has serve "bash, a command"
in_bash tandem bench ser | has serve "bash, a command of a command"
in_bash tandem serve --max- | has --max-model-len "bash, a flag"
in_bash tandem serve --no-p | has --no-pin "bash, a switch that is taken back"
in_bash tandem route --max- | lacks --max-model-len "bash, another command's flag"
in_bash tandem serve --device c | has cuda "bash, a value"
in_bash tandem serve --device = c | has cuda "bash, a value after ="
in_bash tandem serve --model f | has folder "bash, a folder"
in_bash tandem serve --model f | lacks file "bash, a file for a folder"
in_bash tandem serve --config fi | has file "bash, a file"
in_bash tandem replay fi | has file "bash, a word that is no flag"
said=bash

if command -v zsh > /dev/null; then
  in_zsh() { # what _arguments or _describe is given
    zsh -f -c 'compdef() { }; _arguments() { print -l -- "$@" }; _describe() { print -l -- "${(@P)2}" }
      source "$1"; shift; words=("$@"); CURRENT=$#; _tandem' zsh "$work/zsh" "$@"
  }
  in_zsh tandem ser | has 'serve:serve' "zsh, a command"
  in_zsh tandem serve --dev | has '--device\[where to compute\]:auto|cuda|host:(auto cuda host)' "zsh, a flag"
  in_zsh tandem bench serve -- | has '--config\[.*\]:FILE:_files' "zsh, a command of a command"
  said+=", zsh"
fi
if command -v fish > /dev/null; then
  in_fish() { HOME=$work fish --no-config -c "source $work/fish; complete -C '$*'"; }
  in_fish tandem ser | has serve "fish, a command"
  in_fish tandem bench ser | has serve "fish, a command of a command"
  in_fish tandem serve --max-model | has --max-model-len "fish, a flag"
  in_fish tandem route --max-model | lacks --max-model-len "fish, another command's flag"
  in_fish tandem serve --device c | has cuda "fish, a value"
  said+=", fish"
fi

"$program" man --write "$work/man"
[[ -s $work/man/tandem.1 && -s $work/man/tandem-bench-serve.1 ]] || fail "pages are missing: $(ls "$work/man")"
cmp <("$program" man bench serve) "$work/man/tandem-bench-serve.1" || fail "one page is not as all pages are"
if command -v mandoc > /dev/null; then
  mandoc -T lint -W error "$work"/man/*.1 || fail "mandoc finds fault"
  said+=", mandoc"
fi
if command -v groff > /dev/null; then
  complaints=$(groff -man -Tascii -ww -z "$work"/man/*.1 2>&1) || true
  [[ -z $complaints ]] || fail "groff: $complaints"
  said+=", groff"
fi
for command in serve route "bench serve"; do
  # shellcheck disable=SC2086
  for flag in $("$program" $command --help | sed -nE 's/^  (-., )?(--[a-z-]+).*/\2/p'); do
    grep -qF -- "\\fB${flag//-/\\-}\\fR" "$work/man/tandem-${command// /-}.1" || fail "no $flag in the page of $command"
  done
done
for asked in "completion" "completion csh" "man no such"; do
  status=0
  # shellcheck disable=SC2086
  "$program" $asked > "$work/out" 2> "$work/err" || status=$?
  [[ $status == 2 && -s $work/err && ! -s $work/out ]] || fail "tandem $asked ended with $status"
done
echo "shells: asked $said"
