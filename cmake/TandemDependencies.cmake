# Libraries that the distribution ships (the README says why each is here); tools/install-deps
# installs them. Each becomes one imported target.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
# Not by Debian's dnnl-config.cmake: it demands OpenCL's headers, which we never use.
find_library(TANDEM_DNNL_LIBRARY dnnl REQUIRED)
find_path(TANDEM_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${TANDEM_DNNL_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${TANDEM_DNNL_INCLUDE}")
find_package(Boost 1.74 REQUIRED)  # headers: Asio, Beast, Interprocess
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
if(TANDEM_SANITIZE STREQUAL "fuzzer")
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)  # Clang's is another package, and no fuzzer needs it
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)  # only to tell oneDNN, built on it, to stay on one thread
endif()
find_package(hwy REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(NUMA REQUIRED IMPORTED_TARGET numa)
pkg_check_modules(CAPNG REQUIRED IMPORTED_TARGET libcap-ng)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
if(TANDEM_TESTS)
  find_package(GTest REQUIRED)
endif()
