#!/bin/bash
# run.sh: builds a user's program in one of the documented ways and runs it.
#
#   run.sh WAY work=FOLDER cmake=PROGRAM cc=COMPILER cxx=COMPILER nvcc=COMPILER
#          [languages=C,CXX,CUDA] [prefix=FOLDER] [install=FOLDER] [cuda=ON|OFF|AUTO]
#          [ranks=ON|OFF]
#
# WAY is one of
#   add_subdirectory, fetch_content, find_package
#               a project of CMake in these languages (consumer/); install: installs the warpheap
#               that it built. fetch_content: from an archive of the sources, without git's folder,
#               where there is one; and what `make dist` puts into its archive
#   pkgconfig   plain calls of the compilers, without and with CUDA
#   guest       what warpheap leaves in the cache and the folder of a project around it (guest/)
#   allocators  a name that is no allocator
#   migrate     programs of version 0.1 (old/), with the names changed as CHANGELOG.md says
#   dlopen      the shared library: what it exports, and that a program that was not linked with
#               it can load it
# prefix is where warpheap is installed; cuda, whether it is built for GPUs; ranks, whether a guest
# has wh_ranks. Exit status 77: a compiler that this needs is not here.
set -eu
way=$1
shift
languages=C prefix='' install='' cuda=OFF ranks=OFF
for word in "$@"; do
    case $word in
    *=*) declare "${word%%=*}=${word#*=}" ;;
    *)
        echo "not NAME=VALUE: $word" >&2
        exit 2
        ;;
    esac
done
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)

if [[ $cuda != OFF || $languages = *CUDA* ]] && ! command -v "$nvcc" >/dev/null; then
    echo "skipped: there is no nvcc"
    exit 77
fi
# A jobserver of the make that runs the tests is not for these builds.
unset MAKEFLAGS MFLAGS MAKELEVEL
# One architecture and little optimization: whether it compiles and links is the question.
export CC=$cc CXX=$cxx CUDACXX=$nvcc CUDAARCHS=90 CUDAFLAGS="-Ofc max"
rm -rf "$work"
mkdir -p "$work"

# project <folder> <arguments of cmake...>
project() {
    "$cmake" -S "$here/$1" -B "$work" "${@:2}" -DWARPHEAP_CUDA=$cuda
}

# run <names of programs...>
run() {
    local program
    for program in "$@"; do
        echo "$program:"
        # 77: an example that finds no GPU.
        "$work/$program" || [ $? -eq 77 ]
    done
}

# Builds the project of these languages and runs its programs.
build_and_run() {
    project consumer -DWAY=$way -DLANGUAGES="${languages//,/;}" "$@"
    "$cmake" --build "$work" --parallel 2
    local language
    for language in ${languages//,/ }; do
        run static_$language
        if [ -n "$prefix$install" ]; then
            run shared_$language
        fi
    done
    local program
    for program in "$work"/{abi,arena,containers,graph,malloc,ops,kdtree,checkpoint}_*; do
        if [ -f "$program" ] && [ -x "$program" ]; then
            run "$(basename "$program")"
        fi
    done
    if [[ $languages = *CUDA* && $cuda != OFF ]]; then
        run linked_CUDA linked_static_CUDA linked_shared_CUDA
    fi
}

# The files of the working tree that git would have, as an archive in $work; its path, or nothing.
archive() {
    local file=$work/sources.tar.gz
    git -C "$source" -c safe.directory='*' rev-parse --verify --quiet HEAD >/dev/null || return 0
    (cd "$source" && git -c safe.directory='*' ls-files -co --exclude-standard -z -- |
        tar --null --files-from=- --ignore-failed-read --transform 's,^,warpheap/,' \
            -czf "$file" 2>/dev/null)
    echo "$file"
}

# The archive of `make dist` says which commit it is of.
check_dist() {
    local dist
    make -s -C "$source" dist DIST="$work"
    dist=$(echo "$work"/warpheap-*.tar.gz)
    ! tar -tzf "$dist" | grep -v "^$(basename "$dist" .tar.gz)/"
    mkdir "$work/dist"
    tar -xzf "$dist" -C "$work/dist" --strip-components=1
    "$cmake" -DSOURCE="$work/dist" -DOUTPUT="$work/build_info.h" -DCOMPILER= -DFLAGS= \
        -P "$work/dist/cmake/write_build_info.cmake"
    grep "WH_BUILD_COMMIT \"$(git -C "$source" -c safe.directory='*' rev-parse --short=12 HEAD)\"" \
        "$work/build_info.h"
}

# What pkg-config says of the installed one.
pkg_config() {
    PKG_CONFIG_PATH=$(find "$prefix" -type d -name pkgconfig)
    export PKG_CONFIG_PATH
    libdir=$(pkg-config --variable=libdir warpheap)
    cflags=$(pkg-config --cflags warpheap)
    # Where both libraries lie side by side the linker takes the shared one.
    shared=$(pkg-config --libs warpheap)
    graph=$(pkg-config --cflags --libs warpheap-graph)
}

# What pkg-config says of static libraries, which are named by their files then.
static_of() { # <package>
    pkg-config --cflags --libs --static "$1" | sed 's/-l\(warpheap\w*\)/-l:lib\1.a/g'
}

# The lines of a document, from one that begins with $2 on, to the end of the block.
lines_of() { # <document> <begin>
    sed -n "/^$2/,/^\`\`\`/p" "$source/$1" | grep -v '^[`]'
}

case $way in
find_package)
    build_and_run -DCMAKE_PREFIX_PATH="$prefix"
    ;;
fetch_content)
    file=$(archive)
    if [ -n "$file" ]; then
        check_dist
        build_and_run -DARCHIVE="$file" -DARCHIVE_HASH="$(sha256sum "$file" | cut -d' ' -f1)"
        [ -d "$work/_deps/warpheap-src/src" ] && [ ! -e "$work/_deps/warpheap-src/.git" ]
    else
        build_and_run
    fi
    ;;
add_subdirectory)
    build_and_run ${install:+-DWARPHEAP_SHARED=ON -DWARPHEAP_INSTALL=ON -DWARPHEAP_ABI=ON}
    if [ -n "$install" ]; then
        "$cmake" --install "$work" --prefix "$install"
    fi
    ;;
pkgconfig)
    pkg_config
    static=$(static_of warpheap)
    if grep -h -v '^#' "$PKG_CONFIG_PATH"/*.pc | grep -E '(=|-L|-I| )/'; then
        echo "these lines of a .pc file hold for this machine only"
        exit 1
    fi
    "$cc" -std=c11 "$here/consumer.c" $cflags $shared -Wl,-rpath,"$libdir" -o "$work/shared_c"
    if [ "$cuda" = ON ]; then
        "$nvcc" -arch=sm_$CUDAARCHS $CUDAFLAGS "$here/consumer.cu" $cflags $static \
            -o "$work/static_cu"
        linked="$(pkg-config --cflags --libs warpheap-device) -Xlinker -rpath=$libdir"
        "$nvcc" -arch=sm_$CUDAARCHS "$here/consumer.cu" -DMUST_BE_LINKED $linked \
            -o "$work/linked_cu"
        # In two steps, and with the static library.
        linked=$(pkg-config --cflags --libs --static warpheap-device |
            sed 's/-lwarpheap\b/-l:libwarpheap.a/')
        "$nvcc" -arch=sm_$CUDAARCHS -c "$here/consumer.cu" -Dmain=consumer_main -DMUST_BE_LINKED \
            $(pkg-config --cflags warpheap-device) -o "$work/part.o"
        "$nvcc" -arch=sm_$CUDAARCHS "$here/caller.cpp" "$work/part.o" $linked \
            -o "$work/linked_parts"
        "$nvcc" -arch=sm_$CUDAARCHS $CUDAFLAGS "$source/examples/cuda_13_dynamic_graph.cu" \
            $(pkg-config --cflags --libs warpheap-graph warpheap-device) -Xlinker -rpath="$libdir" \
            -o "$work/graph_cu"
        # A file that makes host calls alone is C, also where the library has CUDA.
        "$cc" "$source/examples/07_tables.c" $(pkg-config --cflags --libs warpheap-ops) \
            -Wl,-rpath,"$libdir" -o "$work/ops_c"
        run shared_c static_cu linked_cu linked_parts graph_cu ops_c
    else
        "$cc" "$source/examples/09_arena.c" $cflags $shared -Wl,-rpath,"$libdir" -o "$work/arena_c"
        run arena_c
        for standard in 14 20; do
            "$cxx" -std=c++$standard "$source/examples/20_containers.cpp" $cflags $static \
                -o "$work/containers_$standard"
            run containers_$standard
        done
        for part in graph:05_graph.c:GRAPH.md ops:07_tables.c:OPS.md; do
            IFS=: read -r part example document <<<"$part"
            example=$source/examples/$example
            "$cc" "$example" $(static_of warpheap-$part) -o "$work/${part}_static_c"
            "$cxx" "$here/$part.cpp" $(pkg-config --cflags --libs warpheap-$part) \
                -Wl,-rpath,"$libdir" -o "$work/${part}_shared_cpp"
            run ${part}_static_c ${part}_shared_cpp
            # The lines of the document, each of which makes a program that is run.
            lines_of docs/$document "cc main.c" | sed -z 's/\\\n//g' |
                sed -e "s|^cc|$cc|; s|/usr/local/lib|$libdir|g; s|/usr/local|$prefix|g" \
                    -e "s|main.c|$example|; a LD_LIBRARY_PATH=$libdir ./a.out" >"$work/lines.sh"
            cat "$work/lines.sh"
            (cd "$work" && bash -e lines.sh)
        done
        for part in kdtree checkpoint; do
            "$cc" "$here/$part.c" $(static_of warpheap-$part) -o "$work/${part}_static_c"
            "$cxx" "$here/$part.cpp" $(pkg-config --cflags --libs warpheap-$part) \
                -Wl,-rpath,"$libdir" -o "$work/${part}_shared_cpp"
            run ${part}_static_c ${part}_shared_cpp
        done
        # A program whose headers know other graphs than the library is told so; assertions of its
        # own make no difference.
        "$cc" "$source/examples/05_graph.c" -DWH_ASSERTS=3 $graph -Wl,-rpath,"$libdir" \
            -o "$work/graph_asserts_c"
        run graph_asserts_c
        "$cc" "$source/examples/05_graph.c" -DWH_HOSTILE=1 $graph -Wl,-rpath,"$libdir" \
            -o "$work/graph_hostile_c"
        ! "$work/graph_hostile_c" >"$work/log" 2>&1
        grep "the library was built from other headers" "$work/log"
        "$cc" -std=c11 "$here/consumer.c" $cflags $static -o "$work/static_c"
        "$cxx" "$here/consumer.cpp" $cflags $static -o "$work/static_cpp"
        run shared_c static_c static_cpp
    fi
    ;;
readme)
    # The lines of README and GRAPH.md: the default architectures, everything that `all` builds.
    # -Ofc max alone is ours, for time.
    unset CUDAARCHS
    main=$source/examples/cuda_01_plain.cu
    lines() { # <document> <begin>
        lines_of "$1" "$2" |
            sed -e "s|-B build|-B $work/build|; s|--build build|--build $work/build|" \
                -e "s|--install build|--install $work/build|; s|/usr/local|$work/prefix|g" \
                -e "s|^nvcc|$nvcc $CUDAFLAGS|; s|main.cu|$main|; s|^cmake|$cmake|"
    }
    lines README.md "cmake -S . -B build" >"$work/install.sh"
    lines README.md "nvcc -arch" >"$work/lines"
    main=$source/examples/cuda_13_dynamic_graph.cu
    lines docs/GRAPH.md "nvcc -arch" >>"$work/lines"
    # Each of the programs is run. 77: no GPU.
    sed -z 's/\\\n//g' "$work/lines" |
        sed '/^[^#]*nvcc/a ./a.out || [ $? -eq 77 ]' >"$work/compile.sh"
    cat "$work/install.sh" "$work/compile.sh"
    (cd "$source" && CMAKE_BUILD_PARALLEL_LEVEL=2 bash -e "$work/install.sh")
    PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name warpheap.pc)")
    export PKG_CONFIG_PATH
    (cd "$work" && LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") bash -e compile.sh)
    ;;
guest)
    unset CUDAARCHS # which CMake itself would put into the cache
    entries() {
        grep -v -e '^//' -e '^#' -e '^$' "$work/CMakeCache.txt" |
            grep -v -E '^(WARPHEAP_|warpheap_(BINARY_DIR|SOURCE_DIR|IS_TOP_LEVEL):|GUEST:)' |
            grep -v '^CMAKE_NUMBER_OF_MAKEFILES:' | sort
    }
    project guest -DGUEST=OFF
    without=$(entries)
    rm -r "$work"
    project guest -DGUEST=ON -DWARPHEAP_SHARED=ON -DWARPHEAP_INSTALL=ON -DWARPHEAP_PROGRAM=ON \
        -DWARPHEAP_RANKS=$ranks
    diff <(echo "$without") <(entries) || {
        echo "warpheap changes (>) the cache of the project that it is a guest of"
        exit 1
    }
    if [ $ranks = ON ]; then
        "$cmake" --build "$work" --target ranks_file
    fi
    rm -r "$work"
    if project guest -DGUEST=ON -DWARPHEAP_RANKS=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON \
        >"$work.log" 2>&1; then
        echo "WARPHEAP_RANKS is ON without MPI, and nothing is said"
        exit 1
    fi
    grep "WARPHEAP_RANKS is ON but there is no MPI" "$work.log"
    ;;
allocators)
    if project ../.. -DWARPHEAP_ALLOCATORS='tessera;no-such' >"$work/log" 2>&1; then
        echo "an allocator that does not exist is built"
        exit 1
    fi
    tr -s ' \n' ' ' <"$work/log" | grep -o "there is no allocator 'no-such'.* tessera .* bump .*"
    ;;
migrate)
    # What CHANGELOG.md says of names is enough for programs of 0.1.
    for old in "$here"/old/*; do
        new=$work/$(basename "$old")
        sed -z -f "$here/migrate.sed" "$old" >"$new"
        sed -z -f "$here/migrate.sed" "$new" | diff "$new" - # a second run changes nothing
    done
    grep -q 'count(a.lanes, 0xffffffff)' "$work/tuned.c" # a number of the user's own
    pkg_config
    for program in lists tuned; do
        "$cc" -std=c11 -Wall -Wextra -Werror "$work/$program.c" $cflags $shared \
            -Wl,-rpath,"$libdir" -o "$work/$program"
        run $program
    done
    if [ -n "$nvcc" ]; then
        "$nvcc" -std=c++17 -arch=sm_$CUDAARCHS $CUDAFLAGS $cflags -cubin "$work/tiles.cu" \
            -o "$work/tiles.cubin"
    fi
    ;;
dlopen)
    for name in libwarpheap{,_graph,_ops,_kdtree,_checkpoint}.so; do
        library=$(find "$prefix" -name $name)
        python3 "$here/symbols.py" "$cc" "$source" "$library"
        python3 "$here/dlopen.py" "$library"
    done
    ;;
*)
    echo "unknown way $way" >&2
    exit 2
    ;;
esac
