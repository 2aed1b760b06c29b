# One static library per folder and one test program per tested file; dependencies are listed in
# full.
include(GoogleTest)

# The headers of the standard library and fmt take half of a small file's compile time, so they are
# precompiled once for all libraries, and once with GoogleTest's for all tests (a program's options
# differ from a library's, so it needs its own).
set(TANDEM_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <functional> <map> <memory> <mutex>
  <optional> <random> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>
  <fmt/format.h> <fmt/ranges.h>)

option(TANDEM_PRECOMPILED "Compile the standard library's headers once" ON)

# With joined sources, a few sources of a library are compiled as one file, so that their headers
# are compiled once. A build from scratch takes half the time, but a changed line recompiles its
# neighbours, too. Developers' repeated builds are not joined, which also shows that each source
# compiles alone.
option(TANDEM_JOINED "Compile the sources of a library a few at a time" OFF)
set(TANDEM_JOINED_SOURCES 16)

# Writes the file only if its text differs, so that nothing is recompiled without need.
function(tandem_write file text)
  file(WRITE "${file}.new" "${text}")
  file(COPY_FILE "${file}.new" "${file}" ONLY_IF_DIFFERENT)
  file(REMOVE "${file}.new")
endfunction()

function(tandem_precompiled target)
  tandem_write("${PROJECT_BINARY_DIR}/${target}.cpp" "// Nothing: its precompiled header is what counts.\n")
  target_sources(${target} PRIVATE "${PROJECT_BINARY_DIR}/${target}.cpp")
  target_link_libraries(${target} PRIVATE tandem_options fmt::fmt)
  if(TANDEM_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${TANDEM_PRECOMPILED_HEADERS} ${ARGN})
  endif()
endfunction()

add_library(tandem_precompiled_library STATIC)
tandem_precompiled(tandem_precompiled_library)
# nlohmann's header costs a source more than all of these, and nearly nothing if it is precompiled:
# libraries whose dependencies expose JSON get it precompiled as well.
add_library(tandem_precompiled_library_json STATIC)
tandem_precompiled(tandem_precompiled_library_json <nlohmann/json.hpp>)

# Sets OUT to "_json" if one of the targets given after it exposes JSON to its dependents. A target
# that does not exist yet counts as one that does not.
function(tandem_json_suffix out)
  set(${out} "" PARENT_SCOPE)
  foreach(dependency ${ARGN})
    get_property(suffix GLOBAL PROPERTY "tandem_json_suffix_${dependency}")
    if(dependency STREQUAL "nlohmann_json::nlohmann_json")
      set(suffix "_json")
    elseif(NOT suffix AND TARGET ${dependency})
      get_target_property(further ${dependency} INTERFACE_LINK_LIBRARIES)
      tandem_json_suffix(suffix ${further})
      if(NOT suffix)
        set(suffix "none")
      endif()
      set_property(GLOBAL PROPERTY "tandem_json_suffix_${dependency}" "${suffix}")
    endif()
    if(suffix STREQUAL "_json")
      set(${out} "_json" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets OUT to files that include the sources given after it, by paths relative to the top, so that
# the compiler cache finds them from every clone.
function(tandem_join out name)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  set(files "")
  list(LENGTH ARGN count)
  if(count GREATER 0)
    math(EXPR parts "(${count} + ${TANDEM_JOINED_SOURCES} - 1) / ${TANDEM_JOINED_SOURCES}")
    foreach(part RANGE 1 ${parts})
      math(EXPR begin "(${part} - 1) * ${count} / ${parts}")
      math(EXPR length "${part} * ${count} / ${parts} - ${begin}")
      list(SUBLIST ARGN ${begin} ${length} together)
      list(TRANSFORM together REPLACE "(.+)" "#include \"${folder}/\\1\"  // NOLINT\n")
      list(JOIN together "" text)
      set(file "${PROJECT_BINARY_DIR}/joined/${name}_${part}.cpp")
      tandem_write("${file}" "${text}")
      list(APPEND files "${file}")
    endforeach()
    # These warnings are caused only by joining: they do not apply to the sources on their own.
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "-Wno-shadow;-Wno-subobject-linkage")
  endif()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# tandem_library(NAME [SHARED] [FAST] [SRCS a.cpp ...] [APART a.cpp ...] [HOT a.cpp ...]
#                [DEPS target ...] [PRIVATE_DEPS target ...])
# Makes tandem_NAME with the alias tandem::NAME. DEPS are included by its headers, PRIVATE_DEPS by
# its sources; tools/arrows compares both with the includes. Without SRCS it has only headers. FAST:
# arithmetic that is optimised in every preset, because unoptimised vector code is a hundred times
# slower and the sanitizers' suites run whole models through it. APART: sources that are never
# joined, because they share a name with another source. HOT: sources with loops over many numbers,
# which only -O3 vectorises.
function(tandem_library name)
  cmake_parse_arguments(ARG "SHARED;FAST" "" "SRCS;APART;HOT;DEPS;PRIVATE_DEPS" ${ARGN})
  if(TANDEM_JOINED AND NOT ARG_FAST)
    set(cuda_sources ${ARG_SRCS})
    list(FILTER cuda_sources INCLUDE REGEX "\\.cu$")
    list(FILTER ARG_SRCS EXCLUDE REGEX "\\.cu$")
    tandem_join(ARG_SRCS ${name} ${ARG_SRCS})
    list(APPEND ARG_SRCS ${cuda_sources})
  endif()
  list(APPEND ARG_SRCS ${ARG_APART} ${ARG_HOT})
  if(ARG_HOT)  # its precompiled header needs the same options
    set_source_files_properties(${ARG_HOT} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>
                                                      SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(NOT ARG_SRCS)
    add_library(tandem_${name} INTERFACE)
    target_link_libraries(tandem_${name} INTERFACE tandem_options ${ARG_DEPS})
  else()
    if(ARG_SHARED)
      add_library(tandem_${name} SHARED ${ARG_SRCS})
    else()
      add_library(tandem_${name} STATIC ${ARG_SRCS})
    endif()
    target_link_libraries(tandem_${name} PUBLIC tandem_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
    if(ARG_FAST)
      target_compile_options(tandem_${name} PRIVATE $<$<CONFIG:Debug>:-O2> $<$<CONFIG:Release>:-O3>)
    elseif(TANDEM_PRECOMPILED AND NOT "OpenMP::OpenMP_CXX" IN_LIST ARG_PRIVATE_DEPS) # which is an option of the compiler
      tandem_json_suffix(json ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
      target_precompile_headers(tandem_${name} REUSE_FROM tandem_precompiled_library${json})
      target_link_libraries(tandem_${name} PRIVATE fmt::fmt)  # the precompiled header's options
    endif()
  endif()
  add_library(tandem::${name} ALIAS tandem_${name})
endfunction()

# tandem_program(NAME SRCS main.cpp DEPS target ... [PRIVATE_DEPS target ...])
# Makes a program; scripts may rely on the path build/<preset>/NAME.
function(tandem_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE tandem_options ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endfunction()

# Tests are cheap to run and expensive to optimise: at -O3 their sources took twice as long to
# compile.
function(tandem_test_options target)
  if(TANDEM_SANITIZE STREQUAL "address")
    # Only the tested code is instrumented. The tests' own sources are compiled with exactly the
    # release command, so that the compiler cache has them from the release build.
    set_property(TARGET ${target} PROPERTY COMPILE_OPTIONS "")
    target_compile_options(${target} PRIVATE -O1)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# tandem_test_support(NAME SRCS a.cpp ... DEPS target ...)
# Makes a library that several test programs share, compiled once. Do not put a path of this clone
# into its options: each clone would have to compile it again.
function(tandem_test_support name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  tandem_test_options(${name})
  target_link_libraries(${name} PUBLIC tandem_options fmt::fmt ${ARG_DEPS})
endfunction()

# tandem_test(NAME SRCS a_test.cpp ... DEPS target ... [TIMEOUT seconds] [GPU] [SERIAL] [FAST])
# Makes the program NAME_test; ctest runs each of its cases by name. The working directory is
# tests/, so a test names its data as data/... A test marked GPU is built everywhere, but ctest
# knows it only on a machine with a GPU: label gpu, one at a time. SERIAL: all of it runs in one
# thread, so it is built without the thread sanitizer, which would find nothing and take ten times
# the time. FAST: its own sources compute for long, and are optimised like the libraries.
function(tandem_test name)
  cmake_parse_arguments(ARG "FAST;GPU;SERIAL" "TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(ARG_SERIAL AND TANDEM_SANITIZE STREQUAL "thread")
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  tandem_json_suffix(json ${ARG_DEPS})
  set(precompiled tandem_precompiled_test${json})
  if(NOT TARGET ${precompiled})
    set(json_header "")
    if(json)
      set(json_header <nlohmann/json.hpp>)
    endif()
    add_executable(${precompiled})
    tandem_test_options(${precompiled})
    tandem_precompiled(${precompiled} <gmock/gmock.h> <gtest/gtest.h> ${json_header})
    target_link_libraries(${precompiled} PRIVATE GTest::gmock_main)
  endif()
  add_executable(${name}_test ${ARG_SRCS})
  if(NOT ARG_FAST)
    tandem_test_options(${name}_test)
  endif()
  if(TANDEM_PRECOMPILED AND NOT ARG_FAST)
    target_precompile_headers(${name}_test REUSE_FROM ${precompiled})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651 again: the precompiled header makes it report in the standard library's
    # headers.
    target_compile_options(${name}_test PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                           -Wno-stringop-overread)
  endif()
  target_link_libraries(${name}_test PRIVATE tandem_options ${ARG_DEPS} fmt::fmt GTest::gmock_main)
  set(properties LABELS cpu)
  if(ARG_GPU)
    if(NOT TANDEM_HAVE_GPU)
      return()
    endif()
    set(properties LABELS gpu RESOURCE_LOCK gpu)
  endif()
  gtest_discover_tests(${name}_test NO_PRETTY_VALUES WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/tests"
    TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} ${properties})
endfunction()
