# build_info.h: what a result row says about the program that made it. The commit
# is looked up at every build, the file is touched only when it changed.

string(TOUPPER "${CMAKE_BUILD_TYPE}" upper)
string(STRIP "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${upper}}" wh_flags)
list(JOIN WH_SANITIZER_FLAGS " " text)
string(STRIP "${wh_flags} ${text}" wh_flags)
foreach(definition IN LISTS WH_ABI_DEFINITIONS)
  string(APPEND wh_flags " -D${definition}")
endforeach()
set(wh_compiler "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
if(WH_CUDA)
  string(APPEND wh_compiler ", nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  list(JOIN CMAKE_CUDA_ARCHITECTURES "," text)
  string(STRIP "${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_${upper}}" cuda_flags)
  string(APPEND wh_flags "; nvcc ${cuda_flags} sm_${text}")
endif()

set(wh_info_folder "${PROJECT_BINARY_DIR}/generated/info")
add_custom_target(wh_build_info_header
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
    "-DOUTPUT=${wh_info_folder}/build_info.h"
    "-DCOMPILER=${wh_compiler}" "-DFLAGS=${wh_flags}"
    -P "${PROJECT_SOURCE_DIR}/cmake/write_build_info.cmake"
  BYPRODUCTS "${wh_info_folder}/build_info.h"
  COMMENT "build_info.h" VERBATIM)

# Link to wh_build_info to use build_info.h.
add_library(wh_build_info INTERFACE)
target_include_directories(wh_build_info INTERFACE "${wh_info_folder}")
add_dependencies(wh_build_info wh_build_info_header)
