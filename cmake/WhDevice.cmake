# warpheap::device: the functions that allocators mark with WH_FN_LINKED (simt.h), compiled once as
# relocatable device code. Programs that link it compile none of them. Each family that has such
# functions has an object, and one more for those that free calls (WH_FN_LINKED_FREE), as these may
# use fewer registers. For NVRTC and nvJitLink each object is a fatbin, too: its part that nvlink
# reads.

if(NOT WH_CUDA)
  return()
endif()

set(wh_device_targets "")
set(wh_device_objects "")
set(wh_device_fatbins "")

# wh_device_part(<name> <registers> <definitions...>): an object, and its fatbin
macro(wh_device_part name registers)
  add_library(wh_device_${name} OBJECT EXCLUDE_FROM_ALL src/device/linked.cu)
  target_link_libraries(wh_device_${name} PRIVATE warpheap_headers)
  target_compile_definitions(wh_device_${name} PRIVATE ${ARGN})
  target_compile_options(wh_device_${name} PRIVATE ${WH_CUDA_FLAGS} -maxrregcount=${registers})
  set_property(GLOBAL APPEND PROPERTY WH_CUDA_OBJECT_TARGETS wh_device_${name})
  add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/warpheap_${name}.fatbin"
    DEPENDS wh_device_${name} $<TARGET_OBJECTS:wh_device_${name}>
    COMMAND "${CMAKE_OBJCOPY}" -O binary --only-section=__nv_relfatbin
    $<TARGET_OBJECTS:wh_device_${name}> "${PROJECT_BINARY_DIR}/warpheap_${name}.fatbin"
    COMMENT "warpheap_${name}.fatbin" VERBATIM)
  list(APPEND wh_device_targets wh_device_${name})
  list(APPEND wh_device_objects $<TARGET_OBJECTS:wh_device_${name}>)
  list(APPEND wh_device_fatbins "${PROJECT_BINARY_DIR}/warpheap_${name}.fatbin")
endmacro()

foreach(ident IN LISTS WH_ALLOCATORS)
  string(REGEX MATCH "#define WH_FAMILY_OF_${ident} ([a-z0-9_]+)" text "${wh_list_text}")
  set(family "${CMAKE_MATCH_1}")
  file(GLOB headers CONFIGURE_DEPENDS include/warpheap/detail/alloc/${family}/*.h)
  set(marked "")
  foreach(header IN LISTS headers)
    file(STRINGS "${header}" lines REGEX "^WH_FN_LINKED")
    string(APPEND marked "${lines}")
  endforeach()
  if(marked MATCHES "WH_FN_LINKED[(]" AND NOT TARGET wh_device_${family})
    wh_device_part(${family} ${WARPHEAP_DEVICE_REGISTERS}
      WH_ALLOCATOR=${ident} WH_LINKED_DEFINE=1)
    if(marked MATCHES "WH_FN_LINKED_FREE[(]")
      wh_device_part(${family}_free 32 WH_ALLOCATOR=${ident} WH_LINKED_DEFINE=2)
    endif()
  endif()
endforeach()
if(NOT wh_device_objects)
  return()
endif()

# The architectures are those of the build. The lowest one has PTX in any case, for those that are
# not in the list.
set(architectures ${CMAKE_CUDA_ARCHITECTURES})
set(lowest "")
foreach(entry IN LISTS architectures)
  string(REGEX MATCH "^[0-9]+" number "${entry}")
  if(number AND (NOT lowest OR number LESS lowest))
    set(lowest ${number})
    set(lowest_entry ${entry})
  endif()
endforeach()
if(lowest_entry MATCHES "-real$")
  string(REPLACE "-real" "" plain "${lowest_entry}")
  list(TRANSFORM architectures REPLACE "^${lowest_entry}$" "${plain}")
endif()

# As a guest it is built by those who link it alone.
set(all "")
if(NOT WARPHEAP_INSTALL)
  set(all EXCLUDE_FROM_ALL)
endif()
add_library(warpheap_device STATIC ${all} ${wh_device_objects})
add_library(warpheap::device ALIAS warpheap_device)
set_target_properties(${wh_device_targets} warpheap_device PROPERTIES
  CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS OFF INTERPROCEDURAL_OPTIMIZATION OFF
  CUDA_ARCHITECTURES "${architectures}")
# CUDA_SEPARABLE_COMPILATION of a static library has CMake link device code for its users, who need
# not say anything themselves.
set_target_properties(warpheap_device PROPERTIES OUTPUT_NAME warpheap_device EXPORT_NAME device
  LINKER_LANGUAGE C EXPORT_PROPERTIES CUDA_SEPARABLE_COMPILATION)
target_link_libraries(warpheap_device INTERFACE warpheap_headers)
target_compile_definitions(warpheap_device INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:WH_LINKED=1>")
target_compile_options(warpheap_device INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-rdc=true>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-fgpu-rdc>")
list(APPEND libraries warpheap_device)
set(all ALL)
if(NOT WARPHEAP_INSTALL)
  set(all "")
endif()
add_custom_target(warpheap_fatbins ${all} DEPENDS ${wh_device_fatbins})
