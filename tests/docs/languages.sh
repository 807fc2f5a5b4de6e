#!/bin/bash
# languages.sh: the lines of docs/LANGUAGES.md that begin with a compiler or Python do what the page
# says. Those of cargo and julia are tests of their own. A line whose program is not here is left
# out, and said so.
#
#   languages.sh <source folder> <build folder>
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in include examples python rust julia; do
    ln -s "$source/$name" "$work/$name"
done
ln -s "$build" "$work/build"
cd "$work"
export PYTHONDONTWRITEBYTECODE=1
n=0
while read -r line; do
    program=$(tr ' ' '\n' <<<"$line" | grep -m 1 -v =)
    case $program in
    cargo | julia) n=$((n + 1)) ;;
    *)
        if ! command -v "$program" >/dev/null; then
            echo "left out, there is no $program: $line"
            continue
        fi
        echo "+ $line"
        bash -ec "$line" >log 2>&1 || {
            cat log
            echo "FAIL $line"
            exit 1
        }
        n=$((n + 1))
        ;;
    esac
done < <(sed -n '/^## Try it/,/^For a GPU/p' "$source/docs/LANGUAGES.md" |
    sed -n '/^```sh/,/^```$/p' | grep -v -e '^```' -e '^cmake')
[ $n -ge 5 ] || {
    echo "FAIL: only $n lines were found"
    exit 1
}
