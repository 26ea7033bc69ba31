#!/usr/bin/env bash
# Installs what heterplan needs: Debian packages for the C++ part, and a virtual environment with
# PyTorch for running plans and for the tests. Asks nothing and can be run again at any time: when
# all is there it takes a fraction of a second.
#
# usage: scripts/setup.sh [build|all|lint|fuzz]
#   build  what `make build` needs: no Python
#   all    (default) also .venv with PyTorch: `make demo`, `make test`, `heterplan run`
#   lint   build, and clang-format and clang-tidy
#   fuzz   build, and clang
# HETERPLAN_SKIP_PACKAGES=1 leaves the system's packages alone.
# HETERPLAN_TORCH_INDEX=URL is one more index for pip, for instance
# https://download.pytorch.org/whl/cpu, whose PyTorch for CPUs is a much smaller download.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly build_packages=(
  cmake ninja-build pkg-config ccache
  llvm-14-dev libonnx-dev libprotobuf-dev protobuf-compiler libz3-dev libcli11-dev
  libeigen3-dev coinor-libclp-dev coinor-libcbc-dev libdnnl-dev
  libgtest-dev libbenchmark-dev
)
readonly test_packages=(llvm-14-tools python3 clang-format-14 libonnx-testdata)
readonly lint_packages=(clang-format-14 clang-tidy-14 libomp-14-dev)
readonly fuzz_packages=(clang-14 libclang-rt-14-dev)

say() { echo "setup: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

# Prints those of the named packages that are not installed.
missing_packages() {
  local name state
  declare -A installed=()
  while read -r name state; do
    [[ $state == ii ]] && installed[${name%%:*}]=1
  done < <(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    [[ -n ${installed[$name]:-} ]] || echo "$name"
  done
}

explain_other_systems() {
  cat >&2 <<EOF
setup: this is not a Debian system, so please install the equivalents of these yourself:
  compiler   g++ 12 or newer (C++20)
  build      CMake 3.25, Ninja, pkg-config
  libraries  LLVM 14 (ADT and Support), ONNX 1.12 with its C++ headers, Protobuf 3.21 with protoc,
             Z3 4.8, CLI11, oneDNN 2.6, GoogleTest, Google Benchmark
  tests      FileCheck and lit of LLVM 14; Python 3.11 with its venv module; the test data of ONNX
  lint       clang-format 14, clang-tidy 14, the OpenMP headers of clang 14
Debian names: $*
then run: HETERPLAN_SKIP_PACKAGES=1 make ...
EOF
  exit 1
}

# Installs the named packages, if any is missing.
install_packages() {
  [[ ${HETERPLAN_SKIP_PACKAGES:-} == 1 ]] && return
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || explain_other_systems "$@"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  local root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
      fail "these packages are missing, and neither root nor password-less sudo is at hand. Run:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    root=(sudo -n)
  fi
  say "installing ${missing[*]}"
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300
    -o Dpkg::Use-Pty=0 -o Acquire::Retries=3)
  "${apt[@]}" update </dev/null >&2 || say "apt-get update failed; trying with the lists at hand"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >&2 ||
    fail "apt-get could not install ${missing[*]}. On releases other than Debian 12 some names \
may differ; see docs/development.md"
}

# True when `$1` is a Python that can make the environment of requirements.txt.
usable_python() {
  "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints a usable Python, installing Debian's venv module where that is what is missing.
find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
    usable_python "$candidate" && { echo "$candidate"; return; }
  done
  install_packages python3 python3-venv
  usable_python /usr/bin/python3 && { echo /usr/bin/python3; return; }
  fail "no Python 3.11 or newer with its venv module was found; set PYTHON to one"
}

# Makes .venv, unless it was made from this very requirements.txt.
make_venv() {
  local stamp=.venv/.requirements.sha256 wanted
  wanted=$(sha256sum <requirements.txt)
  [[ -x .venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]] && return
  local python
  python=$(find_python)
  [[ -x .venv/bin/python ]] && .venv/bin/python -c '' 2>/dev/null || {
    say "making .venv with $python"
    rm -rf .venv
    "$python" -m venv .venv
  }
  say "installing PyTorch and the test tools into .venv (some minutes the first time)"
  .venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check \
    ${HETERPLAN_TORCH_INDEX:+--extra-index-url "$HETERPLAN_TORCH_INDEX"} \
    -r requirements.txt </dev/null >&2 || fail "pip could not install requirements.txt"
  echo "$wanted" >"$stamp"
}

packages=("${build_packages[@]}")
case ${1:-all} in
build) ;;
all) packages+=("${test_packages[@]}") ;;
lint) packages+=("${lint_packages[@]}") ;;
fuzz) packages+=("${fuzz_packages[@]}") ;;
*) fail "unknown part '$1'; write build, all, lint or fuzz" ;;
esac
command -v "${CXX:-c++}" >/dev/null || packages+=(g++)
install_packages "${packages[@]}"
if [[ ${1:-all} == all ]]; then
  make_venv
fi
