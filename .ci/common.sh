# What .ci/run and .ci/weekly share: environments of their own, stages, work beside other work.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$(mktemp -d)
beside=
trap '[[ -z $beside ]] || kill -- "-$beside" 2> /dev/null || true; rm -rf "$work"' EXIT

# Nothing of the caller's Python may leak in.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
export MPLBACKEND=Agg PIP_DISABLE_PIP_VERSION_CHECK=1
base_path=$PATH
python=$(command -v python3 || command -v python)

if [[ -d $root/../shared/data ]]; then
    SKLEARN_BUNDLE_DATA=$(cd "$root/../shared/data" && pwd)
    export SKLEARN_BUNDLE_DATA
fi

stage() { printf '\n=== [%4d s] %s\n' "$SECONDS" "$1"; }

# new_environment NAME: a fresh virtual environment, put first on the PATH
new_environment() { "$python" -m venv "$work/$1" && use_environment "$1"; }
use_environment() { export PATH=$work/$1/bin:$base_path; hash -r; }

# start_beside NAME: run the function beside what follows, in a process group that ends with this
# script; wait_for NAME: wait for it, and print its output.
start_beside() {
    set -m
    ("$1") > "$work/$1.log" 2>&1 &
    beside=$!
    set +m
}
wait_for() {
    wait "$beside" || { cat "$work/$1.log"; exit 1; }
    beside=
    cat "$work/$1.log"
}

pytest() { python -m pytest -q -p no:cacheprovider "$@"; }
