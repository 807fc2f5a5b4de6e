# warpheap::abi: the functions of warpheap/warpheap_abi.h, as a relocatable object in an archive for
# nvcc, and for others, which link device code alone:
#
#   warpheap_abi.fatbin     machine code, and PTX for what is newer
#   warpheap_abi.ptx        of the oldest architecture
#   warpheap_abi.ltoir      for nvJitLink -lto. It has the fast paths alone: link the slow ones with
#                           it, the fatbins of warpheap::device (WhDevice.cmake)
#   warpheap_malloc.ltoir   the device's malloc and free, over the former. There is no machine code
#                           and no PTX of them: docs/REPLACE_MALLOC.md says why
#
# WARPHEAP_ABI says whether all of this is part of `all`, and installed. On the simulated device
# the functions are part of the library, and warpheap::abi is just that.

if(NOT WH_CUDA)
  add_library(warpheap_abi INTERFACE)
  add_library(warpheap::abi ALIAS warpheap_abi)
  set_target_properties(warpheap_abi PROPERTIES EXPORT_NAME abi)
  target_link_libraries(warpheap_abi INTERFACE warpheap_static)
  list(APPEND libraries warpheap_abi)
  return()
endif()
if(NOT TARGET warpheap_device)
  return() # without the default allocator
endif()

set(abi_architectures ${architectures}) # of WhDevice.cmake: the lowest one has PTX
if(WARPHEAP_ABI STREQUAL "ALL")
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "sm_[0-9]+" known "${known}")
  list(TRANSFORM known REPLACE "sm_([0-9]+)" "\\1-real")
  list(SORT known COMPARE NATURAL)
  list(GET known 0 lowest_entry)
  string(REPLACE "-real" "" lowest "${lowest_entry}")
  list(TRANSFORM known REPLACE "^${lowest_entry}$" "${lowest}")
  set(abi_architectures ${known})
endif()

separate_arguments(wh_abi_flags UNIX_COMMAND "${CMAKE_CUDA_FLAGS}")
list(APPEND wh_abi_flags -rdc=true -I "${PROJECT_SOURCE_DIR}/include" -std=c++17 -O3)
foreach(definition IN LISTS WH_ABI_DEFINITIONS)
  list(APPEND wh_abi_flags "-D${definition}")
endforeach()
set(wh_abi_cap -Xptxas "--device-function-maxrregcount=${WARPHEAP_ABI_REGISTERS}")

set(source "${PROJECT_SOURCE_DIR}/src/device/abi.cu")
add_library(wh_abi_objects OBJECT EXCLUDE_FROM_ALL "${source}")
target_link_libraries(wh_abi_objects PRIVATE warpheap_headers)
list(JOIN wh_abi_cap " " wh_abi_cap_text)
target_compile_options(wh_abi_objects PRIVATE ${WH_CUDA_FLAGS} "SHELL:${wh_abi_cap_text}")
set_property(GLOBAL APPEND PROPERTY WH_CUDA_OBJECT_TARGETS wh_abi_objects)
add_library(warpheap_abi STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:wh_abi_objects>)
add_library(warpheap::abi ALIAS warpheap_abi)
set_target_properties(wh_abi_objects warpheap_abi PROPERTIES
  CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS OFF INTERPROCEDURAL_OPTIMIZATION OFF
  CUDA_ARCHITECTURES "${abi_architectures}")
set_target_properties(warpheap_abi PROPERTIES EXPORT_NAME abi LINKER_LANGUAGE C
  EXPORT_PROPERTIES CUDA_SEPARABLE_COMPILATION)
target_link_libraries(warpheap_abi INTERFACE warpheap_headers)
target_compile_options(warpheap_abi INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-rdc=true>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-fgpu-rdc>")

set(fatbin "${PROJECT_BINARY_DIR}/warpheap_abi.fatbin")
add_custom_command(OUTPUT "${fatbin}"
  DEPENDS wh_abi_objects $<TARGET_OBJECTS:wh_abi_objects>
  COMMAND "${CMAKE_OBJCOPY}" -O binary --only-section=__nv_relfatbin
  $<TARGET_OBJECTS:wh_abi_objects> "${fatbin}" COMMENT "warpheap_abi.fatbin" VERBATIM)
set(ptx "${PROJECT_BINARY_DIR}/warpheap_abi.ptx")
add_custom_command(OUTPUT "${ptx}" DEPENDS wh_abi_objects "${source}"
  COMMAND "${CMAKE_CUDA_COMPILER}" -ptx -arch=compute_${lowest} ${wh_abi_flags} "${source}"
  -o "${ptx}" COMMENT "warpheap_abi.ptx" VERBATIM)
set(wh_abi_files "${fatbin}" "${ptx}")
foreach(name IN ITEMS abi malloc)
  set(source "${PROJECT_SOURCE_DIR}/src/device/${name}.cu")
  set(ltoir "${PROJECT_BINARY_DIR}/warpheap_${name}.ltoir")
  add_custom_command(OUTPUT "${ltoir}" DEPENDS wh_abi_objects "${source}"
    COMMAND "${CMAKE_CUDA_COMPILER}" -ltoir -dlto -arch=sm_${lowest} -DWH_LINKED=1 ${wh_abi_flags}
    "${source}" -o "${ltoir}" COMMENT "warpheap_${name}.ltoir" VERBATIM)
  list(APPEND wh_abi_files "${ltoir}")
endforeach()

set(all "")
if(WARPHEAP_ABI)
  set(all ALL)
  list(APPEND libraries warpheap_abi)
endif()
add_custom_target(warpheap_abi_files ${all} DEPENDS ${wh_abi_files} warpheap_abi)
