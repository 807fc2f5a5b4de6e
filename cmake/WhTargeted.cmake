# Objects, parts, and targeted sources: files that are compiled once per
# (allocator, target), as C for the simulator and by nvcc for the GPU, with
# WH_ALLOCATOR set. Which allocators there are is read from
# include/warpheap/detail/alloc/list.h, the one place that lists them; which of
# them are built, the option WARPHEAP_ALLOCATORS says.

set(wh_list_file "${PROJECT_SOURCE_DIR}/include/warpheap/detail/alloc/list.h")
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY
  CMAKE_CONFIGURE_DEPENDS "${wh_list_file}")
file(READ "${wh_list_file}" wh_list_text)
# Continued lines are made one, with each entry X(...) of the list on a line of its own.
string(REGEX REPLACE "[ \t]*\\\\[ \t]*\n[ \t]*" " " wh_list_text "${wh_list_text}")
string(REPLACE " X(" "\nX(" wh_list_text "${wh_list_text}")

# WH_KNOWN: the idents of all entries. WH_NAME_<ident>, WH_ON_SIM_<ident>, and WH_CAPS_<ident>: the
# text of the capability record, with those that it names in it.
set(WH_KNOWN "")
set(known_names "")
string(REGEX MATCHALL "\nX\\([a-z0-9_]+, \"[^\"]+\"" wh_list_heads "${wh_list_text}")
foreach(head IN LISTS wh_list_heads)
  string(REGEX MATCH "X\\(([a-z0-9_]+), \"([^\"]+)\"" head "${head}")
  set(ident "${CMAKE_MATCH_1}")
  set(WH_NAME_${ident} "${CMAKE_MATCH_2}")
  list(APPEND WH_KNOWN "${ident}")
  list(APPEND known_names "${WH_NAME_${ident}}")
  # The capability record is a macro of list.h; bit WH_CAP_SIM in its text decides.
  set(WH_ON_SIM_${ident} OFF)
  if(NOT wh_list_text MATCHES "X\\(${ident},[^\n]*[ (](WH_CAPS_[A-Z0-9_]+)[ ,)]")
    message(FATAL_ERROR "alloc/list.h: the entry of ${ident} names no WH_CAPS_ record")
  endif()
  set(caps "${CMAKE_MATCH_1}")
  string(REGEX MATCH "#define ${caps}[ \t][^\n]*" caps_text "${wh_list_text}")
  set(WH_CAPS_${ident} "${caps_text}")
  string(REGEX MATCHALL "WH_CAPS_[A-Z0-9_]+" others "${caps_text}")
  list(REMOVE_ITEM others "${caps}")
  foreach(other IN LISTS others)
    string(REGEX MATCH "#define ${other}[ \t][^\n]*" text "${wh_list_text}")
    string(APPEND WH_CAPS_${ident} " ${text}")
  endforeach()
  if(caps_text MATCHES "WH_CAP_SIM[^A-Z_]")
    set(WH_ON_SIM_${ident} ON)
  endif()
endforeach()
if(NOT WH_KNOWN)
  message(FATAL_ERROR "alloc/list.h: found no entry of the form X(ident, \"name\", ...)")
endif()

# WH_ALLOCATORS: the idents of those that are built, in the order of list.h;
# WH_ALLOCATOR_NAMES: their names; WH_DEFAULT_NAME: the default one.
string(REGEX MATCH "#define WH_DEFAULT_ALLOCATOR \"([^\"]+)\"" text "${wh_list_text}")
set(WH_DEFAULT_NAME "${CMAKE_MATCH_1}")
set(chosen "")
foreach(name IN LISTS WARPHEAP_ALLOCATORS)
  if(name STREQUAL "all")
    list(APPEND chosen ${known_names})
  elseif(name STREQUAL "default")
    list(APPEND chosen "${WH_DEFAULT_NAME}")
  elseif(name IN_LIST known_names)
    list(APPEND chosen "${name}")
  else()
    list(JOIN known_names " " text)
    message(FATAL_ERROR "WARPHEAP_ALLOCATORS: there is no allocator '${name}'. "
      "Known are: ${text}; or: default, all")
  endif()
endforeach()
if(NOT chosen)
  message(FATAL_ERROR "WARPHEAP_ALLOCATORS names no allocator")
endif()

# built_list.h: the entries of list.h that are built, as WH_BUILT_LIST(X), and as
# WH_BUILT_LIST_FOR(X, what), in which X has one more argument, the first. WH_PARTS_LIST_FOR: of
# those that parts beside the library are compiled for, graphs and operators (CAPS, below): in
# checked builds one of a kind, as these parts take most of the time, and allocators have tests of
# their own; without WARPHEAP_NIGHTLY three. WH_TESTED_LIST_FOR: of those that conform and stress
# are compiled for (TESTED, below): in checked builds without WARPHEAP_NIGHTLY neither floors nor
# allocators most of whose code another one has, too.
set(wh_alike null floor floor_plain bump_plain ouro_s_c ouro_va_p ouro_vl_p rw crw awmalloc cmalloc
  cfmalloc cmmalloc)
set(wh_kinds tessera ouro_s_p cfmmalloc)
if(WARPHEAP_NIGHTLY)
  list(APPEND wh_kinds gallatin ouro_vl_c)
endif()
set(wh_checked ON)
if(WARPHEAP_SANITIZER STREQUAL "none" AND NOT WARPHEAP_HOSTILE)
  set(wh_checked OFF)
endif()
set(WH_ALLOCATORS "")
set(WH_ALLOCATOR_NAMES "")
set(lines "")
set(lines_for "")
set(lines_parts "")
set(WH_PARTS_ALLOCATORS "")
set(lines_tested "")
set(WH_TESTED_ALLOCATORS "")
foreach(ident IN LISTS WH_KNOWN)
  if(WH_NAME_${ident} IN_LIST chosen)
    list(APPEND WH_ALLOCATORS "${ident}")
    list(APPEND WH_ALLOCATOR_NAMES "${WH_NAME_${ident}}")
    string(REGEX MATCH "\nX\\((${ident},[^\n]*\\))" text "${wh_list_text}")
    set(entry "${CMAKE_MATCH_1}")
    string(APPEND lines " \\\n    X(${entry}")
    string(APPEND lines_for " \\\n    X(what, ${entry}")
    if(NOT wh_checked OR ident IN_LIST wh_kinds)
      list(APPEND WH_PARTS_ALLOCATORS "${ident}")
      string(APPEND lines_parts " \\\n    X(what, ${entry}")
    endif()
    if(NOT wh_checked OR WARPHEAP_NIGHTLY OR NOT ident IN_LIST wh_alike)
      list(APPEND WH_TESTED_ALLOCATORS "${ident}")
      string(APPEND lines_tested " \\\n    X(what, ${entry}")
    endif()
  endif()
endforeach()
set(WH_BUILT_FOLDER "${PROJECT_BINARY_DIR}/generated/built")
file(CONFIGURE OUTPUT "${WH_BUILT_FOLDER}/built_list.h" @ONLY CONTENT
"/* built_list.h: written by the build; see cmake/WhTargeted.cmake. */
#ifndef WH_BUILT_LIST_H
#define WH_BUILT_LIST_H

#include \"warpheap/detail/alloc/tables.h\"

#define WH_BUILT_LIST(X)@lines@
#define WH_BUILT_LIST_FOR(X, what)@lines_for@
#define WH_PARTS_LIST_FOR(X, what)@lines_parts@
#define WH_TESTED_LIST_FOR(X, what)@lines_tested@

#endif
")

set(WH_EMPTY_SOURCE "${PROJECT_BINARY_DIR}/generated/empty.c")
if(NOT EXISTS "${WH_EMPTY_SOURCE}")
  file(WRITE "${WH_EMPTY_SOURCE}"
    "/* keeps a part that has no sources yet buildable */\ntypedef int wh_empty;\n")
endif()

# wh_objects(<target> <sources...>): an object library of ours; none without sources.
function(wh_objects target)
  if(ARGN)
    add_library(${target} OBJECT ${ARGN})
    target_link_libraries(${target} PRIVATE wh_own)
  endif()
endfunction()

# The .cu file through which nvcc sees a C source.
function(wh_cuda_wrapper out source)
  cmake_path(ABSOLUTE_PATH source NORMALIZE)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE name)
  cmake_path(REPLACE_EXTENSION name LAST_ONLY cu)
  set(wrapper "${PROJECT_BINARY_DIR}/generated/cuda/${name}")
  file(CONFIGURE OUTPUT "${wrapper}" CONTENT "#include \"${source}\"\n" @ONLY)
  set(${out} "${wrapper}" PARENT_SCOPE)
endfunction()

# wh_targeted_objects(<variable> [SIM_ONLY] [ONCE] [TESTED] [SOURCES] <sources...>
#                     [DEFINITIONS ...] [CAPS ...])
# Sets <variable> to the object files ($<TARGET_OBJECTS:...>) of all sources, for
# all (allocator, target) pairs; with CAPS, of those allocators that have WH_CAP_<each>; with
# TESTED, of those that conform and stress test; with ONCE, once for each target, for kernels that
# use no heap.
function(wh_targeted_objects variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SIM_ONLY;ONCE;TESTED" "" "SOURCES;DEFINITIONS;CAPS")
  set(idents ${WH_ALLOCATORS})
  if(arg_CAPS)
    set(idents ${WH_PARTS_ALLOCATORS})
  endif()
  if(arg_TESTED)
    set(idents ${WH_TESTED_ALLOCATORS})
  endif()
  if(arg_ONCE)
    set(idents once)
    set(WH_ON_SIM_once ON)
  endif()
  set(sources ${arg_UNPARSED_ARGUMENTS} ${arg_SOURCES})
  set(objects "")
  if(sources)
    set(wrappers "")
    if(WH_CUDA AND NOT arg_SIM_ONLY)
      foreach(source IN LISTS sources)
        wh_cuda_wrapper(wrapper "${source}")
        list(APPEND wrappers "${wrapper}")
      endforeach()
    endif()
    foreach(ident IN LISTS idents)
      set(lacks "")
      foreach(cap IN LISTS arg_CAPS)
        if(NOT WH_CAPS_${ident} MATCHES "WH_CAP_${cap}[^A-Z_]")
          list(APPEND lacks ${cap})
        endif()
      endforeach()
      if(lacks)
        continue()
      endif()
      set(definitions WH_ALLOCATOR=${ident} ${arg_DEFINITIONS})
      if(arg_ONCE)
        set(definitions ${arg_DEFINITIONS})
      endif()
      set(targets "")
      if(WH_ON_SIM_${ident})
        wh_objects(${variable}_${ident}_sim ${sources})
        # There are hundreds: -Og takes a third of the time of -O3 to compile, and -O1 two thirds.
        # Tests spend their time in the simulated device's core; those that spend much of it in
        # kernels, too, and the library's own kernels, have -O1; -Og where the rest of a checked
        # build has -O0, which takes clang a fifth of the time, and gcc two thirds.
        set(level -Og)
        if(variable MATCHES "^(wh_library_objects|(conform|stress|fault.*)_kernels)$")
          set(level -O1)
          if(wh_checked)
            target_compile_options(${variable}_${ident}_sim PRIVATE -Og)
          endif()
        endif()
        target_compile_options(${variable}_${ident}_sim PRIVATE $<$<CONFIG:Release>:${level}>)
        list(APPEND targets ${variable}_${ident}_sim)
      endif()
      if(wrappers)
        wh_objects(${variable}_${ident}_cuda ${wrappers})
        list(APPEND targets ${variable}_${ident}_cuda)
        set_property(GLOBAL APPEND PROPERTY WH_CUDA_OBJECT_TARGETS ${variable}_${ident}_cuda)
      endif()
      foreach(target IN LISTS targets)
        target_compile_definitions(${target} PRIVATE ${definitions})
        set_target_properties(${target} PROPERTIES WH_SIM_ONLY "${arg_SIM_ONLY}")
        list(APPEND objects $<TARGET_OBJECTS:${target}>)
      endforeach()
    endforeach()
  endif()
  set(${variable} "${objects}" PARENT_SCOPE)
endfunction()

# wh_part(<target> SOURCES ... LIBRARIES ... [DEFINITIONS ...])
# A part of the program that is not installed: linking to <target> brings its
# objects. *_kernels.c among the sources are targeted.
function(wh_part target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;DEFINITIONS")
  set(plain ${arg_SOURCES})
  set(kernels ${arg_SOURCES})
  list(FILTER plain EXCLUDE REGEX "_kernels\\.c$")
  list(FILTER kernels INCLUDE REGEX "_kernels\\.c$")
  wh_targeted_objects(${target}_kernels SOURCES ${kernels} DEFINITIONS ${arg_DEFINITIONS})
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE ${arg_LIBRARIES})
  target_sources(${target} INTERFACE ${${target}_kernels})
  wh_objects(${target}_objects ${plain})
  if(plain)
    target_compile_definitions(${target}_objects PRIVATE ${arg_DEFINITIONS})
    target_link_libraries(${target}_objects PRIVATE wh_build_info)
    target_sources(${target} INTERFACE $<TARGET_OBJECTS:${target}_objects>)
  endif()
endfunction()
