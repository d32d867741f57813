# Sourced by every script in bin/: leaves the checkout's path in $root and makes $root/.venv ready.

unset CDPATH PYTHONHOME PYTHONPATH VIRTUAL_ENV

root=$(cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)

find_python() {
    probe='import sys
if sys.version_info >= (3, 11): print("suitable " + sys.executable)
else: print("%d.%d.%d" % tuple(sys.version_info[:3]))'
    unsuitable=
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        answer=$("$candidate" -E -S -c "$probe" 2>/dev/null) || continue
        case $answer in
            "suitable "*) python=${answer#suitable }; return ;;
            *) unsuitable="$unsuitable${unsuitable:+, }$candidate ($answer)" ;;
        esac
    done
    echo "smartpubsub: Python 3.11 or newer is needed; found ${unsuitable:-no Python}" >&2
    exit 1
}

find_python
"$python" -E -S "$root/tools/bootstrap.py" ${native_later:-} || exit $?
