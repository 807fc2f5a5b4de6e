# Options, and what follows from them: warnings, sanitizers, whether there is CUDA.
#
# warpheap may be a guest in another project's build. So every entry that this build adds to the
# cache begins with WARPHEAP_, and everything else is a variable of this folder.

# CMake's modules put what they find into the cache. What they put there between
# wh_cache_mark() and wh_cache_clean() becomes variables of this folder.
macro(wh_cache_mark)
  get_cmake_property(wh_cache_before CACHE_VARIABLES)
endmacro()
macro(wh_cache_clean)
  get_cmake_property(wh_cache_after CACHE_VARIABLES)
  list(REMOVE_ITEM wh_cache_after ${wh_cache_before})
  foreach(name IN LISTS wh_cache_after)
    set(value "${${name}}")
    unset(${name} CACHE)
    set(${name} "${value}")
  endforeach()
endmacro()

set(WARPHEAP_CUDA AUTO CACHE STRING
  "GPU target: AUTO (nvcc and a GPU are here, or the project around this one has CUDA), \
ON (nvcc is required) or OFF")
set_property(CACHE WARPHEAP_CUDA PROPERTY STRINGS AUTO ON OFF)
set(WARPHEAP_SANITIZER none CACHE STRING
  "none, address (with undefined behaviour) or thread")
set_property(CACHE WARPHEAP_SANITIZER PROPERTY STRINGS none address thread)
if(PROJECT_IS_TOP_LEVEL)
  set(WARPHEAP_ALLOCATORS all CACHE STRING "names of allocators to build; or: default, all")
else()
  set(WARPHEAP_ALLOCATORS default CACHE STRING "names of allocators to build; or: default, all")
endif()
set(WARPHEAP_NVTX AUTO CACHE STRING
  "ranges and blocks for NVIDIA's tools: AUTO (with CUDA), ON (wants the headers) or OFF")
set_property(CACHE WARPHEAP_NVTX PROPERTY STRINGS AUTO ON OFF)
set(WARPHEAP_ABI_REGISTERS 64 CACHE STRING
  "registers that the functions of warpheap::abi may use")
set(WARPHEAP_DEVICE_REGISTERS 40 CACHE STRING
  "registers that the functions of warpheap::device may use, and kernels that call them need")
set(WARPHEAP_ABI OFF CACHE STRING
  "warpheap::abi, device code for other languages: OFF (built for targets that link it), ON \
(also installed) or ALL (installed, for all architectures that nvcc knows)")
set_property(CACHE WARPHEAP_ABI PROPERTY STRINGS OFF ON ALL)
set(WARPHEAP_RANKS AUTO CACHE STRING
  "wh_ranks, graphs and tables on several GPUs: AUTO (for the tests, where there is MPI), ON (MPI \
is required) or OFF")
set_property(CACHE WARPHEAP_RANKS PROPERTY STRINGS AUTO ON OFF)
option(WARPHEAP_FUZZ "build the targets of tests/fuzz for libFuzzer: with clang" OFF)
option(WARPHEAP_NIGHTLY "checked builds have what `make nightly` alone tests there: allocators \
most of whose code another one has, graphs and operators of more allocators, and examples" ON)
option(WARPHEAP_HOSTILE "shrink the allocators' constants so that every boundary is hit" OFF)
option(WARPHEAP_TESTS "build the tests" ${PROJECT_IS_TOP_LEVEL})
option(WARPHEAP_PROGRAM "build the program warpheap (needs jansson and zlib)"
  ${PROJECT_IS_TOP_LEVEL})
option(WARPHEAP_STATIC_DEPS "link jansson and zlib statically into the program, without assimp" OFF)
option(WARPHEAP_SHARED "build the shared library, too" ${PROJECT_IS_TOP_LEVEL})
option(WARPHEAP_INSTALL "make install rules" ${PROJECT_IS_TOP_LEVEL})
option(WARPHEAP_WERROR "warnings are errors; the presets say so" OFF)

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, ..." FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# What a project around this one may have set for its own files: cmake/warpheap.map says what is
# exported, each file has static functions of the same names, and kernels are static.
set(CMAKE_C_VISIBILITY_PRESET default)
set(CMAKE_UNITY_BUILD OFF)
set(CMAKE_CUDA_SEPARABLE_COMPILATION OFF)

# --- warnings -------------------------------------------------------------------

set(WH_C_WARNINGS -Wall -Wextra -Wundef -Wshadow -Wconversion -Wstrict-prototypes
  -Wmissing-prototypes)
# Fields that a launch leaves out are zero on purpose: {device, blocks, threads, NULL}.
list(APPEND WH_C_WARNINGS -Wno-missing-field-initializers)
# Of tests and examples in C++.
set(WH_CXX_WARNINGS -Wall -Wextra -Wpedantic -Wundef -Wshadow -Wconversion)
if(WARPHEAP_WERROR)
  list(APPEND WH_C_WARNINGS -Werror)
  list(APPEND WH_CXX_WARNINGS -Werror)
endif()
# The shared library's own calls need not go through its symbol table.
set(WH_C_FLAGS ${WH_C_WARNINGS} -fno-semantic-interposition)

# --- sanitizers -------------------------------------------------------------------

set(WH_SANITIZER_FLAGS "")
set(WH_SANITIZER_DEFINITIONS "")
if(WARPHEAP_SANITIZER STREQUAL "address")
  set(WH_SANITIZER_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  set(WH_SANITIZER_DEFINITIONS WH_ASAN=1)
elseif(WARPHEAP_SANITIZER STREQUAL "thread")
  set(WH_SANITIZER_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
  set(WH_SANITIZER_DEFINITIONS WH_TSAN=1)
elseif(NOT WARPHEAP_SANITIZER STREQUAL "none")
  message(FATAL_ERROR "WARPHEAP_SANITIZER is '${WARPHEAP_SANITIZER}': "
    "use none, address or thread")
endif()

if(WARPHEAP_FUZZ) # a plan is first made for no memory, with addresses from NULL on
  list(APPEND WH_SANITIZER_FLAGS -fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow)
endif()

# What a program's kernels must be compiled with to fit the library.
set(WH_ABI_DEFINITIONS "")
if(WARPHEAP_HOSTILE)
  list(APPEND WH_ABI_DEFINITIONS WH_HOSTILE=1)
endif()
# Checked builds check all assertions of our own files (simt.h).
if(WARPHEAP_HOSTILE OR NOT WARPHEAP_SANITIZER STREQUAL "none")
  list(APPEND WH_SANITIZER_DEFINITIONS WH_ASSERTS=3)
endif()

# --- CUDA ---------------------------------------------------------------------------

set(WH_CUDA OFF)
set(WH_GPU OFF) # whether GPU tests can run here
set(WH_CUDA_FLAGS "")
set(WH_CUDA_STATIC "") # what the static library links, and the shared one
set(WH_CUDA_SHARED "")

if(EXISTS /dev/nvidia0)
  set(WH_GPU ON)
else()
  execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE failed OUTPUT_VARIABLE gpus ERROR_QUIET)
  if("${failed}" STREQUAL "0" AND gpus MATCHES "GPU 0")
    set(WH_GPU ON)
  endif()
endif()

# The compiler of the project around this one comes first: one build, one toolkit.
if(CMAKE_CUDA_COMPILER)
  set(nvcc "${CMAKE_CUDA_COMPILER}")
elseif(WARPHEAP_CUDA)
  find_program(WARPHEAP_NVCC nvcc HINTS ENV CUDA_PATH PATH_SUFFIXES bin
    PATHS /usr/local/cuda/bin)
  set(nvcc "${WARPHEAP_NVCC}")
endif()
if(WARPHEAP_CUDA STREQUAL "AUTO")
  if(WH_GPU AND NOT nvcc)
    message(STATUS "warpheap: there is a GPU but no nvcc; only the simulated device is built")
  elseif(WH_GPU OR CMAKE_CUDA_COMPILER_ID)
    set(WH_CUDA ON)
  endif()
elseif(WARPHEAP_CUDA)
  if(NOT nvcc)
    message(FATAL_ERROR "WARPHEAP_CUDA is ON but there is no nvcc on PATH or in /usr/local/cuda")
  endif()
  set(WH_CUDA ON)
endif()

if(WH_CUDA)
  if(NOT WARPHEAP_SANITIZER STREQUAL "none")
    message(FATAL_ERROR "host sanitizers and WARPHEAP_CUDA exclude each other: "
      "use compute-sanitizer on a plain build")
  endif()
  # These variables are not in the cache: there they would hold for the project around this one.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 75 90)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${nvcc}")
  endif()
  enable_language(CXX)
  enable_language(CUDA)
  wh_cache_mark()
  find_package(CUDAToolkit REQUIRED)
  wh_cache_clean()
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # Kernels are static, one translation unit each: no relocatable device code.
  # {0} leaves members out on purpose; g++ warns of that, gcc does not.
  set(WH_CUDA_FLAGS
    "SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Wno-missing-field-initializers"
    "SHELL:-Xcompiler=-fno-exceptions,-fno-rtti"
    "SHELL:-Xcudafe --display_error_number")
  if(WARPHEAP_WERROR)
    list(APPEND WH_CUDA_FLAGS "SHELL:-Werror all-warnings" "SHELL:-Xcompiler=-Werror")
  endif()
  # What nvcc generates for a kernel's host side guards its static variables by
  # calls into the C++ run-time library; with it named here C programs can link.
  #
  # The shared library uses the shared CUDA runtime: the static one has 4 KiB of thread-local
  # variables, more than dlopen finds room for beside the simulator's one of the initial-exec
  # model.
  set(WH_CUDA_SHARED CUDA::cudart stdc++)
  string(TOLOWER "${CMAKE_CUDA_RUNTIME_LIBRARY}" runtime)
  if(runtime STREQUAL "shared")
    set(WH_CUDA_STATIC ${WH_CUDA_SHARED})
  else()
    set(WH_CUDA_STATIC CUDA::cudart_static stdc++)
  endif()
  message(STATUS "warpheap: CUDA ${CMAKE_CUDA_COMPILER_VERSION} for sm_${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "warpheap: simulated device only (WARPHEAP_CUDA=${WARPHEAP_CUDA})")
endif()

# --- NVTX ---------------------------------------------------------------------------
# Headers alone; of the CUDA toolkit, or from https://github.com/NVIDIA/NVTX.

set(WH_NVTX OFF)
if(WARPHEAP_NVTX)
  find_path(WARPHEAP_NVTX_INCLUDE_DIR nvtx3/nvToolsExtMem.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    PATHS /usr/local/cuda/include)
  if(WARPHEAP_NVTX_INCLUDE_DIR AND (WH_CUDA OR NOT WARPHEAP_NVTX STREQUAL "AUTO"))
    set(WH_NVTX ON)
  elseif(NOT WARPHEAP_NVTX STREQUAL "AUTO")
    message(FATAL_ERROR "WARPHEAP_NVTX is ON but there is no nvtx3/nvToolsExtMem.h: say where by "
      "WARPHEAP_NVTX_INCLUDE_DIR")
  elseif(WH_CUDA)
    message(STATUS "warpheap: nothing for NVIDIA's tools: there is no nvtx3/nvToolsExtMem.h")
  endif()
endif()
