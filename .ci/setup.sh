# Sourced by demo.sh and test.sh: a virtual environment in .venv, and the system packages
# that dtsflow can use. Installs what is missing where it may, and names it where it may not.

say() { printf '\n== %s\n' "$*"; }

apt_install() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "apt-get install $*"
    apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    echo "Missing system packages: $*. Install them with: sudo apt-get install $*"
    return 1
  fi
}

usable_python() {
  for candidate in python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

set_up() {
  if ! usable_python >/dev/null; then
    apt_install python3 python3-venv || exit 1
    usable_python >/dev/null || { echo "dtsflow needs Python 3.11 or newer."; exit 1; }
  fi
  if ! ldconfig -p 2>/dev/null | grep libturbojpeg >/dev/null; then
    # Debian and Ubuntu name the same library differently; without it Pillow decodes.
    apt_install libturbojpeg0 || apt_install libturbojpeg || echo "Going on with Pillow alone."
  fi
  if ! command -v c++ >/dev/null || ! echo '#include <stdio.h>
#include <jpeglib.h>' | c++ -E -x c++ - >/dev/null 2>&1; then
    apt_install g++ libjpeg-dev || echo "Going on without the native core: slower."
  fi
  if [ ! -x .venv/bin/python ]; then
    say "virtual environment .venv"
    "$(usable_python)" -m venv .venv || {
      rm -rf .venv
      apt_install python3-venv || exit 1
      "$(usable_python)" -m venv .venv
    }
  fi
  PATH="$PWD/.venv/bin:$PATH"
  export PATH
}

pip_install() {
  python -m pip install --quiet --disable-pip-version-check "$@"
}
