#!/usr/bin/env bash
# deb.sh BUILD: makes the Debian package of a built tree and checks its dependencies, content and
# configuration files without installing it (tools/package try does that on a bare root). Exit
# status 77, which ctest shows as skipped, without the packaging tools (dpkg-dev, file).
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../../.."
type dpkg-shlibdeps dpkg-deb file cpack > /dev/null 2>&1 || { echo "skipped: no dpkg-dev, or no file"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "deb: $*" >&2; exit 1; }

# The fastest compression, because the size is not tested.
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip > "$work/log" 2>&1 ||
  { cat "$work/log" >&2; fail "cpack failed"; }
deb=$(echo "$work"/tandem*.deb)
[[ -f $deb ]] || fail "not one package, but: $deb"

field() { dpkg-deb -f "$deb" "$1"; }
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
[[ $(field Version) == "$version"-1~* ]] || fail "its version is $(field Version)"
[[ $(field Package) =~ ^tandem(-cuda)?$ ]] || fail "it is called $(field Package)"
# These come from dpkg-shlibdeps and from the maintainer scripts.
for needed in 'libc6 (>= ' libdnnl libhwloc libsqlite3 passwd systemd; do
  [[ $(field Depends) == *"$needed"* ]] || fail "it does not depend on $needed: $(field Depends)"
done

dpkg-deb -c "$deb" > "$work/list"
holds() { grep -Eq "^$1 root/root .* \./$2\$" "$work/list" || fail "no $2 of root's with $1: $(grep -F "/${2##*/}" "$work/list")"; }
holds '-rwxr-xr-x' usr/bin/tandem
for unit in tandem tandem-route; do holds '-rw-r--r--' usr/lib/systemd/system/$unit.service; done
holds '-rw-r--r--' usr/lib/sysusers.d/tandem.conf
for page in tandem tandem-serve tandem-route tandem-bench-serve; do holds '-rw-r--r--' usr/share/man/man1/$page.1.gz; done
holds '-rw-r--r--' usr/share/bash-completion/completions/tandem
holds '-rw-r--r--' usr/share/tandem/prometheus/rules.yml
for document in copyright changelog.gz changelog.Debian.gz docs/packages.md; do
  holds '-rw-r--r--' "usr/share/doc/tandem/$document"
done
if grep -vE ' \./((usr|etc)(/|$)|$)' "$work/list"; then fail "files elsewhere"; fi

# Exactly the files in /etc are configuration files of the administrator.
dpkg-deb -e "$deb" "$work/control"
diff <(sed -n 's|^-.* \./etc|/etc|p' "$work/list" | sort) <(sort "$work/control/conffiles") ||
  fail "conffiles are not what lies in /etc"
for script in postinst prerm postrm; do
  [[ -x $work/control/$script ]] || fail "no $script to run"
  sh -n "$work/control/$script" || fail "$script cannot be read"
done

# Each unit starts a program in the package with settings in it, and its manual pages are there.
dpkg-deb -x "$deb" "$work/root"
for unit in tandem tandem-route; do
  file=$work/root/usr/lib/systemd/system/$unit.service
  read -r program _ _ settings < <(sed -n 's/^ExecStart=//p' "$file")
  for needed in "$program" "$settings"; do [[ -f $work/root$needed ]] || fail "$unit.service needs $needed"; done
  for needed in $(sed -n 's/^Documentation=//p' "$file"); do
    case $needed in
      man:*) page=${needed#man:} && [[ -f $work/root/usr/share/man/man1/${page%(1)}.1.gz ]] || fail "no $needed" ;;
      file://*) [[ -f $work/root${needed#file://} ]] || fail "no $needed" ;;
    esac
  done
  if type systemd-analyze > /dev/null 2>&1; then
    sed "/^Documentation=/d; s|^ExecStart=/usr/bin/tandem|ExecStart=$(type -P true)|" "$file" > "$work/$unit.service"
    systemd-analyze verify "$work/$unit.service" > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "$unit.service"; }
    [[ ! -s $work/log ]] || { cat "$work/log" >&2; fail "systemd-analyze complains of $unit.service"; }
    systemd-analyze security --offline=yes --threshold=20 "$work/$unit.service" > /dev/null || fail "$unit.service is too open"
  fi
done
echo "$(basename "$deb"): $(wc -l < "$work/list") entries, as they should be"
