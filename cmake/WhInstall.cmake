# Install rules: headers, libraries, find_package(warpheap), pkg-config, the program.

if(NOT WARPHEAP_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
wh_cache_mark()
include(GNUInstallDirs)
wh_cache_clean()

set(wh_package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/warpheap")
install(DIRECTORY include/warpheap DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS ${libraries} warpheap_headers EXPORT warpheapTargets
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
# What `make install` builds beside the program.
add_custom_target(warpheap_installed DEPENDS ${libraries})
if(wh_device_fatbins)
  add_dependencies(warpheap_installed warpheap_fatbins)
  install(FILES ${wh_device_fatbins} DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(WARPHEAP_ABI AND wh_abi_files)
  add_dependencies(warpheap_installed warpheap_abi_files)
  install(FILES ${wh_abi_files} DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET warpheap_cli)
  install(TARGETS warpheap_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(DIRECTORY python/warpheap/report DESTINATION "${CMAKE_INSTALL_DATADIR}/warpheap"
    FILES_MATCHING PATTERN "*.py" PATTERN "*.html" PATTERN __pycache__ EXCLUDE)
  file(RELATIVE_PATH wh_report "${CMAKE_INSTALL_FULL_BINDIR}"
    "${CMAKE_INSTALL_FULL_DATADIR}/warpheap/report")
  target_compile_definitions(warpheap_cli PRIVATE WHI_REPORT_INSTALLED="${wh_report}")
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/warpheap")

install(EXPORT warpheapTargets NAMESPACE warpheap:: DESTINATION "${wh_package_folder}")
set(WH_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
set(WH_FATBIN_NAMES "")
foreach(file IN LISTS wh_device_fatbins)
  cmake_path(GET file FILENAME name)
  string(APPEND WH_FATBIN_NAMES " ${name}")
endforeach()
set(WH_ABI_FILE_NAMES "")
if(WARPHEAP_ABI)
  foreach(file IN LISTS wh_abi_files)
    cmake_path(GET file FILENAME name)
    string(APPEND WH_ABI_FILE_NAMES " ${name}")
  endforeach()
endif()
configure_package_config_file(cmake/warpheapConfig.cmake.in
  "${PROJECT_BINARY_DIR}/generated/warpheapConfig.cmake"
  INSTALL_DESTINATION "${wh_package_folder}" PATH_VARS WH_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/warpheapConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/warpheapConfig.cmake"
  "${PROJECT_BINARY_DIR}/generated/warpheapConfigVersion.cmake"
  DESTINATION "${wh_package_folder}")

set(WH_PC_CFLAGS "")
foreach(definition IN LISTS WH_ABI_DEFINITIONS)
  string(APPEND WH_PC_CFLAGS " -D${definition}")
endforeach()
set(WH_PC_PRIVATE "-lpthread -lm")
if(CUDA::cudart_static IN_LIST WH_CUDA_STATIC)
  string(PREPEND WH_PC_PRIVATE "-lcudart_static -ldl -lrt -lstdc++ ")
elseif(WH_CUDA)
  string(PREPEND WH_PC_PRIVATE "-lcudart -lstdc++ ")
endif()
# Paths relative to the .pc file keep an installed tree movable.
file(RELATIVE_PATH WH_PC_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/warpheap.pc.in "${PROJECT_BINARY_DIR}/generated/warpheap.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/warpheap.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
function(wh_pkgconfig part template)
  set(WH_PC_PART "${part}")
  set(WH_PC_DESCRIPTION "${WH_DESCRIPTION_${part}}")
  set(WH_PC_LIBS "${WH_LIBS_${part}}")
  set(file "${PROJECT_BINARY_DIR}/generated/warpheap-${part}.pc")
  configure_file("cmake/${template}" "${file}" @ONLY)
  install(FILES "${file}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
foreach(extension IN LISTS WH_EXTENSIONS)
  wh_pkgconfig(${extension} warpheap-extension.pc.in)
endforeach()
if(TARGET warpheap_device)
  wh_pkgconfig(device warpheap-device.pc.in)
endif()
