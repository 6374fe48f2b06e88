# shellcheck shell=bash
# Looks at an nginx that is not ours before anything is built for it, so that what is missing is said in one sentence and no
# build script panics. Sourced by ci/build-module after common.sh. It changes nothing.

oldest_nginx=1.22.0

nginx_version_of() { sed -n 's/^#define NGINX_VERSION *"\([0-9.]*\)".*/\1/p' "$1/src/core/nginx.h"; }

# foreign_kind BUILD: a name for the nginx whose configure wrote this folder; each has its own target folder.
foreign_kind() { echo "foreign-$(realpath "$1" | sha256sum | cut -c 1-12)"; }

# check_foreign SOURCE BUILD BINARY: ends the script unless the module can be built for this nginx. BINARY may be empty.
check_foreign() {
  local source=$1 build=$2 binary=$3 version
  [ -n "$source" ] && [ -n "$build" ] || die "name both folders: --source DIR (nginx's source) and --build DIR (what its configure wrote, mostly DIR/objs)"
  [ -f "$source/src/core/nginx.h" ] || die "--source $source is no source of nginx (it lacks src/core/nginx.h): unpack the source of the version that 'nginx -v' names"
  [ -f "$build/ngx_auto_config.h" ] && [ -f "$build/Makefile" ] ||
    die "--build $build holds no configured nginx: run ./configure (in a git checkout: auto/configure) in $source with the options that 'nginx -V' prints"
  version=$(nginx_version_of "$source")
  [ "$(printf '%s\n' "$oldest_nginx" "$version" | sort -V | head -n 1)" = "$oldest_nginx" ] ||
    die "nginx $version is too old: the module needs $oldest_nginx or newer"
  check_http "$build"
  check_tools
  check_libclang
  check_headers "$source" "$build"
  [ -z "$binary" ] || check_binary "$binary" "$version" "$build"
}

check_http() {
  ! grep -q '^#define NGX_CONFIGURE.* --without-http[" ]' "$1/ngx_auto_config.h" || die "this nginx was configured --without-http: the module needs its http block"
}

check_tools() {
  command -v "${CC:-cc}" >/dev/null || die "there is no C compiler '${CC:-cc}': install gcc or clang (Debian: ci/setup installs it)"
  command -v cargo >/dev/null || die "there is no cargo: install Rust 1.95 or newer (Debian: ci/setup installs it)"
}

# check_libclang: where bindgen looks: in LIBCLANG_PATH alone if that is set (a folder or the file), else where the loader and
# the distributions have it. And the headers of its own (stddef.h and the like), which some packages keep apart.
check_libclang() {
  local found do="install libclang-dev (Debian) or clang-devel (Fedora), or set LIBCLANG_PATH to the folder that holds it"
  if [ -n "${LIBCLANG_PATH+set}" ]; then
    compgen -G "${LIBCLANG_PATH:-/nowhere}/libclang[-.]*so*" >/dev/null || [ -f "$LIBCLANG_PATH" ] ||
      die "libclang, which reads nginx's headers, is not in LIBCLANG_PATH=$LIBCLANG_PATH: unset it, or $do"
    return
  fi
  found=$({ ldconfig -p; ls /usr/lib*/libclang* /usr/lib/*/libclang* /usr/lib/llvm*/lib/libclang* /usr/local/lib*/libclang*; } 2>/dev/null |
    grep -c 'libclang[-.0-9]*\.so' || true)
  [ "$found" -gt 0 ] || die "libclang is missing, which reads nginx's headers: $do"
  compgen -G '/usr/lib*/llvm*/lib*/clang/*/include/stddef.h' >/dev/null || compgen -G '/usr/lib*/clang/*/include/stddef.h' >/dev/null ||
    command -v clang >/dev/null || die "libclang has no headers of its own here (stddef.h): $do"
}

# check_headers SOURCE BUILD: what nginx's headers include must be there: PCRE2, OpenSSL, zlib.
check_headers() {
  local includes said
  mapfile -t includes < <(makefile_includes "$1" "$2")
  said=$(printf '#include <ngx_config.h>\n#include <ngx_core.h>\n#include <ngx_http.h>\n' |
    "${CC:-cc}" -fsyntax-only -x c "${includes[@]}" - 2>&1) ||
    die "a header that nginx's own include is missing; install the -dev packages of PCRE2, OpenSSL and zlib (Debian: libpcre2-dev libssl-dev zlib1g-dev): $(grep -m 1 error <<<"$said")"
}

# The include folders of a configured nginx, relative ones made absolute.
makefile_includes() {
  sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$2/Makefile" | grep -E '^(ALL_INCS|CFLAGS)' | grep -oE -- '-I *[^ ]+' |
    sed 's/^-I *//' | while read -r folder; do
    case "$folder" in /*) echo "-I$folder" ;; *) echo "-I$1/$folder" ;; esac
  done
}

# check_binary BINARY VERSION BUILD: the nginx that will load the module has this version, and compat if the folder has none.
check_binary() {
  local said
  said=$("$1" -V 2>&1) || die "--nginx $1 cannot be run: $said"
  grep -qE "/$2( |\$)" <<<"$(head -n 1 <<<"$said")" ||
    die "$1 is $(head -n 1 <<<"$said" | sed 's/^[^:]*: *//') and the source is nginx $2: take the source of that version"
  if grep -q -- --with-compat <<<"$said" && ! grep -q "^#define NGX_COMPAT " "$3/ngx_auto_config.h"; then
    die "$1 was configured --with-compat and $3 was not: configure the source again with the options that '$1 -V' prints"
  fi
}

# check_loads BINARY MODULE: lets nginx itself say whether the module fits.
check_loads() {
  local folder said=
  folder=$(mktemp -d)
  printf 'load_module %s;\nerror_log stderr;\npid %s/pid;\nevents {}\n' "$2" "$folder" >"$folder/nginx.conf"
  said=$("$1" -t -e stderr -p "$folder" -c "$folder/nginx.conf" 2>&1) && rm -rf "$folder" && return
  rm -rf "$folder"
  die "$1 does not load the module (docs/foreign-nginx.md tells what the message means): $(grep -m 1 emerg <<<"$said" || echo "$said")"
}
