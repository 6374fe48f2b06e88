# shellcheck shell=bash
# Shared by the scripts of this folder (sourced, never run): where things are, how a step is logged, how two
# runs stay out of each other's way. Everything that is built lies below target/.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/target
pinned=1.28.3
module_name=ngx_http_ratelimitly_module.so

# rustup installs below the home folder, which a shell that is no login shell may not have on its path.
command -v cargo >/dev/null || PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$(basename "$0"): $*"
  exit 1
}

# explain SCRIPT: prints the comment at the script's head, which says what it does, and ends.
explain() {
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"
  exit 0
}

# check_kind KIND: the nginx that the scripts know.
check_kind() {
  case "${1:-}" in
    "$pinned" | debian) ;;
    *) die "unknown nginx '${1:-}': it must be $pinned or debian" ;;
  esac
}

# logged FILE COMMAND...: the command's output goes to the file, and to stderr only when it fails.
logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1 9>&-; then
    say "failed: $*"
    tail -n 60 "$log" >&2
    say "(whole log: $log)"
    return 1
  fi
}

# locked NAME: holds an exclusive lock on NAME until the script ends.
locked() {
  mkdir -p "$out/lock"
  exec 9>"$out/lock/$1"
  flock 9
}

# The nginx source and configured build folder that the bindings are generated from.
nginx_source() {
  if [ "$1" = debian ]; then echo /usr/share/nginx/src; else echo "$out/nginx/$1/src"; fi
}
nginx_objects() { echo "$out/nginx/$1/objs"; }

# nginx_environment KIND [SOURCE BUILD]: exports what a cargo command on the module needs. Each nginx has its own target
# folder, else the bindings would be generated anew at each change of kind.
nginx_environment() {
  NGINX_SOURCE_DIR=$(realpath -m "${2:-$(nginx_source "$1")}")
  NGINX_BUILD_DIR=$(realpath -m "${3:-$(nginx_objects "$1")}")
  CARGO_TARGET_DIR=$out/module/$1/cargo
  export NGINX_SOURCE_DIR NGINX_BUILD_DIR CARGO_TARGET_DIR
}
