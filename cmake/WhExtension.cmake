# Extensions: libraries beside the main one, warpheap::graph, ops, kdtree. One is
# src/<name>/*.c, where *_kernels.c are targeted sources, include/warpheap/<name>*.h, and
# cmake/warpheap_<name>.map.

# WH_EXTENSIONS: their names; WH_DESCRIPTION_<name>: a line for pkg-config; WH_LIBS_<name>: what its
# users link, too.
set(WH_EXTENSIONS "")

# wh_extension(<name> DESCRIPTION <text> [CAPS <capability>...] [ONCE <regular expression>]
#              [LIBRARIES <library>...])
# makes of the extension's files the targets
#   warpheap_<name>          warpheap::<name>_static, and warpheap::<name> of a build
#   warpheap_<name>_shared   warpheap::<name>_shared, with WARPHEAP_SHARED: of the same objects; it
#                            finds the main library beside itself
# and adds both to `libraries`. CAPS: what an allocator must have to be compiled for. ONCE: files of
# kernels that use no heap. LIBRARIES: of the system, which the device calls of its headers need.
# <name>_sources, <name>_kernels and <name>_once are the files, for tests.
function(wh_extension name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESCRIPTION;ONCE" "CAPS;LIBRARIES")
  set(static warpheap_${name})
  set(shared warpheap_${name}_shared)

  file(GLOB sources CONFIGURE_DEPENDS src/${name}/*.c)
  set(kernels ${sources})
  list(FILTER sources EXCLUDE REGEX "_kernels\\.c$")
  list(FILTER kernels INCLUDE REGEX "_kernels\\.c$")
  set(once "")
  if(arg_ONCE)
    set(once ${kernels})
    list(FILTER once INCLUDE REGEX "${arg_ONCE}")
    list(REMOVE_ITEM kernels ${once})
  endif()
  set(objects wh_${name}_kernels)
  set(objects_once wh_${name}_kernels_of)
  wh_targeted_objects(${objects} SOURCES ${kernels} CAPS ${arg_CAPS})
  wh_targeted_objects(${objects_once} ONCE SOURCES ${once})
  wh_objects(wh_${name}_objects ${sources})
  set(all ${${objects}} ${${objects_once}} $<TARGET_OBJECTS:wh_${name}_objects>)

  add_library(${static} STATIC ${all})
  add_library(warpheap::${name}_static ALIAS ${static})
  add_library(warpheap::${name} ALIAS ${static})
  target_link_libraries(${static} PUBLIC warpheap_static ${arg_LIBRARIES})
  set_target_properties(${static} PROPERTIES EXPORT_NAME ${name}_static LINKER_LANGUAGE C)
  set(targets ${static})
  if(WARPHEAP_SHARED)
    add_library(${shared} SHARED ${all})
    add_library(warpheap::${name}_shared ALIAS ${shared})
    wh_shared_library(${shared} warpheap_${name}.map)
    target_link_libraries(${shared} PUBLIC warpheap_shared ${arg_LIBRARIES})
    set_target_properties(${shared} PROPERTIES OUTPUT_NAME warpheap_${name}
      EXPORT_NAME ${name}_shared LINKER_LANGUAGE C INSTALL_RPATH "$ORIGIN")
    list(APPEND targets ${shared})
  endif()
  if(NOT WARPHEAP_INSTALL) # as a guest it is built by those who link it alone
    list(TRANSFORM all REPLACE "\\$<TARGET_OBJECTS:(.*)>" "\\1")
    set_target_properties(${targets} ${all} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()

  foreach(list IN ITEMS sources kernels once)
    set(${name}_${list} "${${list}}" PARENT_SCOPE)
  endforeach()
  set(WH_DESCRIPTION_${name} "${arg_DESCRIPTION}" PARENT_SCOPE)
  list(TRANSFORM arg_LIBRARIES PREPEND " -l" OUTPUT_VARIABLE libs)
  string(JOIN "" libs ${libs})
  set(WH_LIBS_${name} "${libs}" PARENT_SCOPE)
  set(WH_EXTENSIONS ${WH_EXTENSIONS} ${name} PARENT_SCOPE)
  set(libraries ${libraries} ${targets} PARENT_SCOPE)
endfunction()
