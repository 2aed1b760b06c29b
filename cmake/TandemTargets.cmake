# One static library per folder, one test program per tested file, dependencies spelled out.
include(GoogleTest)

# tandem_library(NAME SRCS a.cpp ... [DEPS target ...] [PRIVATE_DEPS target ...])
# Makes tandem_NAME with the alias tandem::NAME.
function(tandem_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(tandem_${name} STATIC ${ARG_SRCS})
  add_library(tandem::${name} ALIAS tandem_${name})
  target_link_libraries(tandem_${name} PUBLIC tandem_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# tandem_test(NAME SRCS a_test.cpp ... DEPS target ... [TIMEOUT seconds] [GPU] [SERIAL])
# Makes the program NAME_test; ctest runs each of its cases by name. The working directory is
# tests/, so a test names its data as data/... A test marked GPU is built everywhere, and ctest knows
# it only where a GPU is: label gpu, one at a time. SERIAL: all of it runs in one thread, so the
# thread sanitizer, which costs it ten times its time, has nothing to find and goes without it.
function(tandem_test name)
  cmake_parse_arguments(ARG "GPU;SERIAL" "TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(ARG_SERIAL AND TANDEM_SANITIZE STREQUAL "thread")
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name}_test ${ARG_SRCS})
  target_link_libraries(${name}_test PRIVATE tandem_options ${ARG_DEPS} GTest::gmock_main)
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
