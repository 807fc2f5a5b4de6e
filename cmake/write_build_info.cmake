# Script (cmake -P): writes build_info.h. SOURCE, OUTPUT, COMPILER, FLAGS.
# The environment's WARPHEAP_COMMIT names the commit of a tree without git; the archive of
# `make dist` names its own (archive_commit).

set(commit unknown)
find_program(git git)
if(NOT "$ENV{WARPHEAP_COMMIT}" STREQUAL "")
  set(commit "$ENV{WARPHEAP_COMMIT}")
elseif(git)
  # safe.directory: a checkout owned by someone else (a container's mount) is fine here.
  execute_process(
    COMMAND "${git}" -c safe.directory=* describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY "${SOURCE}" RESULT_VARIABLE failed OUTPUT_VARIABLE text
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # A source tree inside somebody else's repository is not that repository's commit.
  execute_process(COMMAND "${git}" -c safe.directory=* rev-parse --show-prefix
    WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE prefix
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if("${failed}" STREQUAL "0" AND text AND "${prefix}" STREQUAL "")
    set(commit "${text}")
  endif()
endif()
if(commit STREQUAL "unknown" AND EXISTS "${SOURCE}/cmake/archive_commit")
  file(READ "${SOURCE}/cmake/archive_commit" text)
  string(REGEX MATCH "^[0-9a-f]+" text "${text}")
  string(SUBSTRING "${text}" 0 12 text)
  if(text)
    set(commit "${text}")
  endif()
endif()

foreach(name IN ITEMS COMPILER FLAGS)
  string(REPLACE "\\" "\\\\" ${name} "${${name}}")
  string(REPLACE "\"" "\\\"" ${name} "${${name}}")
endforeach()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
/* build_info.h: written by the build. */
#ifndef WH_BUILD_INFO_H
#define WH_BUILD_INFO_H
#define WH_BUILD_COMMIT "@commit@"
#define WH_BUILD_COMPILER "@COMPILER@"
#define WH_BUILD_FLAGS "@FLAGS@"
#endif
]])
