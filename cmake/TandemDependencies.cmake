# Libraries from the distribution (docs/dependencies.md gives the reason for each);
# tools/install-deps installs them. Each becomes an imported target if its version fits
# (TandemVersions.cmake).
include(TandemVersions)
option(TANDEM_ANY_VERSION "Try versions of libraries that are older or newer than those known to work" OFF)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost is found by its own configuration: CMake's module is no more
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  tandem_needs(g++ FOUND ON VERSION "${CMAKE_CXX_COMPILER_VERSION}" FROM 12 PACKAGE g++)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  tandem_needs(clang FOUND ON VERSION "${CMAKE_CXX_COMPILER_VERSION}" FROM 14 PACKAGE clang)
endif()
find_package(Threads REQUIRED)
if(TANDEM_SANITIZE STREQUAL "fuzzer")
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)  # Clang's is another package, and no fuzzer needs it
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)  # only to tell oneDNN, built on it, to stay on one thread
endif()

# tandem_find(NAME FROM oldest [BELOW first] PACKAGE package [COMPONENTS name]) uses find_package.
macro(tandem_find name)
  cmake_parse_arguments(FIND "" "FROM;BELOW;PACKAGE;COMPONENTS" "" ${ARGN})
  find_package(${name} QUIET COMPONENTS ${FIND_COMPONENTS})
  set(FIND_VERSION "${${name}_VERSION}")
  string(TOUPPER "${name}" FIND_UPPER)
  foreach(FIND_OTHER ${FIND_UPPER}_VERSION ${FIND_UPPER}_VERSION_STRING)  # as CMake's own modules name it
    if(NOT FIND_VERSION)
      set(FIND_VERSION "${${FIND_OTHER}}")
    endif()
  endforeach()
  tandem_needs(${name} FOUND "${${name}_FOUND}" VERSION "${FIND_VERSION}" FROM ${FIND_FROM}
               BELOW "${FIND_BELOW}" PACKAGE ${FIND_PACKAGE})
endmacro()
tandem_find(fmt FROM 9.1 BELOW 11 PACKAGE libfmt-dev)
tandem_find(spdlog FROM 1.10 BELOW 2 PACKAGE libspdlog-dev)
tandem_find(nlohmann_json FROM 3.11 BELOW 4 PACKAGE nlohmann-json3-dev)
tandem_find(tomlplusplus FROM 3.3 BELOW 4 PACKAGE libtomlplusplus-dev)
tandem_find(CLI11 FROM 2.1 BELOW 3 PACKAGE libcli11-dev)
tandem_find(Boost FROM 1.74 BELOW 2 PACKAGE libboost-dev)  # headers: Asio, Beast, Interprocess
tandem_find(ZLIB FROM 1.2.11 BELOW 2 PACKAGE zlib1g-dev)
tandem_find(OpenSSL FROM 3.0 PACKAGE libssl-dev COMPONENTS Crypto SSL)
tandem_find(SQLite3 FROM 3.40 BELOW 4 PACKAGE libsqlite3-dev)
tandem_find(hwy FROM 1.0 BELOW 2 PACKAGE libhwy-dev)
tandem_find(prometheus-cpp FROM 1.0 BELOW 2 PACKAGE prometheus-cpp-dev COMPONENTS core)
if(TANDEM_TESTS)
  tandem_find(GTest FROM 1.12 BELOW 2 PACKAGE "libgtest-dev, libgmock-dev")
endif()

# tandem_pkg_config(PREFIX MODULE FROM oldest [BELOW first] PACKAGE package) makes
# PkgConfig::PREFIX.
find_package(PkgConfig QUIET)
tandem_needs(pkg-config FOUND "${PkgConfig_FOUND}" VERSION "${PKG_CONFIG_VERSION_STRING}" FROM 0.29 PACKAGE pkg-config)
macro(tandem_pkg_config prefix module)
  cmake_parse_arguments(FIND "" "FROM;BELOW;PACKAGE" "" ${ARGN})
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
  tandem_needs(${module} FOUND "${${prefix}_FOUND}" VERSION "${${prefix}_VERSION}" FROM ${FIND_FROM}
               BELOW "${FIND_BELOW}" PACKAGE ${FIND_PACKAGE})
endmacro()
tandem_pkg_config(PCRE2 libpcre2-8 FROM 10.42 BELOW 11 PACKAGE libpcre2-dev)
tandem_pkg_config(HWLOC hwloc FROM 2.9 BELOW 3 PACKAGE libhwloc-dev)
tandem_pkg_config(NUMA numa FROM 2.0.16 BELOW 3 PACKAGE libnuma-dev)
tandem_pkg_config(CAPNG libcap-ng FROM 0.8.3 PACKAGE libcap-ng-dev)
tandem_pkg_config(SECCOMP libseccomp FROM 2.5.4 BELOW 3 PACKAGE libseccomp-dev)
tandem_pkg_config(HTTPLIB cpp-httplib FROM 0.11 BELOW 1 PACKAGE libcpp-httplib-dev)
tandem_pkg_config(UTF8PROC libutf8proc FROM 2.6 PACKAGE libutf8proc-dev)  # tells its ABI: 2.6 is of 2.8, 3.0 of 2.9

# Debian's dnnl-config.cmake is not used, because it requires OpenCL's headers, which we do not
# need.
find_library(TANDEM_DNNL_LIBRARY dnnl)
find_path(TANDEM_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
set(dnnl_found OFF)
set(dnnl_version "")
if(TANDEM_DNNL_LIBRARY AND TANDEM_DNNL_INCLUDE)
  set(dnnl_found ON)
  file(STRINGS "${TANDEM_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h" dnnl_version
       REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM dnnl_version REPLACE ".* " "")
  list(JOIN dnnl_version "." dnnl_version)
endif()
tandem_needs(oneDNN FOUND ${dnnl_found} VERSION "${dnnl_version}" FROM 2.6 BELOW 4 PACKAGE libdnnl-dev)
tandem_needs_met()

add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${TANDEM_DNNL_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${TANDEM_DNNL_INCLUDE}")
